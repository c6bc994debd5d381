#include "cmocka_check.h"
#include "http_server.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void page(void *arg, const char *path, struct http_page *out)
{
	(void)arg;
	const bool known = strcmp(path, "/metrics") == 0;
	*out = (struct http_page){
	    .code = known ? HTTP_OK : HTTP_NOT_FOUND, .type = "text/plain", .text = strcmp(path, "/none") ? strdup(path) : NULL};
}

/* Sends `request` and reads until the server closes. */
static void ask(const struct http_server *s, const char *request, char *out, size_t bytes)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	at.sin_port = htons((uint16_t)atoi(strrchr(http_server_address(s), ':') + 1));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t n = 0;
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	for (ssize_t got; n + 1 < bytes && (got = read(fd, out + n, bytes - n - 1)) > 0;)
		n += (size_t)got;
	out[n] = '\0';
	close(fd);
}

#define HEAD " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"

static void test_answers_what_page_makes(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	char reply[4096];
	assert_int_equal(http_server_start(&s, "0", page, NULL, &err), WEIR_OK);
	assert_ptr_equal(strstr(http_server_address(s), "127.0.0.1:"), http_server_address(s));
	ask(s, "GET /metrics?a=b" HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 200"), reply);
	assert_string_equal(strstr(reply, "\r\n\r\n"), "\r\n\r\n/metrics");
	ask(s, "GET /other" HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 404"), reply);
	ask(s, "GET /none" HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 503"), reply);
	ask(s, "POST /metrics" HEAD "Content-Length: 3\r\n\r\nabc", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 405"), reply);
	http_server_stop(s);
}

static void test_refuses_addresses(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "x", "65536", "-1", "127.0.0.1:", "localhost:80", "1.2.3.4.5:80", "1:2:3"};
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct http_server *s;
		weir_error err = {0};
		assert_int_equal(http_server_start(&s, wrong[i], page, NULL, &err), WEIR_E_INVALID);
		assert_null(s);
		assert_non_null(strstr(err.text, wrong[i]));
	}
}

static void test_port_in_use(void **state)
{
	(void)state;
	struct http_server *first, *second;
	weir_error err = {0};
	assert_int_equal(http_server_start(&first, "127.0.0.1:0", page, NULL, &err), WEIR_OK);
	assert_int_equal(http_server_start(&second, http_server_address(first), page, NULL, &err), WEIR_E_IO);
	assert_non_null(strstr(err.text, http_server_address(first)));
	http_server_stop(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers_what_page_makes), cmocka_unit_test(test_refuses_addresses),
	                                   cmocka_unit_test(test_port_in_use)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
