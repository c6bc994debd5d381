#include "cmocka_check.h"
#include "http_server.h"

#include <stdbool.h>

#include "http_ask.h"
#include "limits.h"

static void page(void *arg, const char *path, struct http_page *out)
{
	(void)arg;
	const bool known = strcmp(path, "/metrics") == 0;
	*out = (struct http_page){
	    .code = known ? HTTP_OK : HTTP_NOT_FOUND, .type = "text/plain", .text = strcmp(path, "/none") ? strdup(path) : NULL};
}

static void test_answers_what_page_makes(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	char reply[4096];
	assert_int_equal(http_server_start(&s, "0", page, NULL, &err), WEIR_OK);
	assert_ptr_equal(strstr(http_server_address(s), "127.0.0.1:"), http_server_address(s));
	http_ask(http_server_address(s), "GET /metrics?a=b" HTTP_HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 200"), reply);
	assert_string_equal(strstr(reply, "\r\n\r\n"), "\r\n\r\n/metrics");
	http_ask(http_server_address(s), "GET /other" HTTP_HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 404"), reply);
	http_ask(http_server_address(s), "GET /none" HTTP_HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 503"), reply);
	http_ask(http_server_address(s), "POST /metrics" HTTP_HEAD "Content-Length: 3\r\n\r\nabc", reply, sizeof reply);
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

static void test_a_head_that_is_too_long(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	char reply[4096], *request = malloc(2 * WEIR_HTTP_REQUEST_BYTES_MAX);
	assert_int_equal(http_server_start(&s, "0", page, NULL, &err), WEIR_OK);
	memset(request, 'a', 2 * WEIR_HTTP_REQUEST_BYTES_MAX);
	memcpy(request, "GET /", 5);
	request[WEIR_HTTP_REQUEST_BYTES_MAX + 100] = '\0';
	http_ask(http_server_address(s), request, reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 414"), reply);
	http_server_stop(s);
	free(request);
}

/* Who only holds connections open makes room for who asks. */
static void test_the_oldest_connection_makes_room(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	char reply[4096];
	int slow[WEIR_HTTP_CONNECTIONS_MAX];
	assert_int_equal(http_server_start(&s, "0", page, NULL, &err), WEIR_OK);
	for (unsigned i = 0; i < WEIR_HTTP_CONNECTIONS_MAX; i++)
		slow[i] = http_begin(http_server_address(s), "GET /met");
	http_ask(http_server_address(s), "GET /metrics" HTTP_HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 200"), reply);
	http_end(slow[0], reply, sizeof reply); /* it has been closed */
	assert_null(strstr(reply, " 200 "));
	assert_int_equal(write(slow[WEIR_HTTP_CONNECTIONS_MAX - 1], "rics" HTTP_HEAD "\r\n", strlen("rics" HTTP_HEAD "\r\n")),
	                 strlen("rics" HTTP_HEAD "\r\n"));
	http_end(slow[WEIR_HTTP_CONNECTIONS_MAX - 1], reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 200"), reply);
	for (unsigned i = 1; i + 1 < WEIR_HTTP_CONNECTIONS_MAX; i++)
		close(slow[i]);
	http_server_stop(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers_what_page_makes), cmocka_unit_test(test_refuses_addresses),
	                                   cmocka_unit_test(test_port_in_use), cmocka_unit_test(test_a_head_that_is_too_long),
	                                   cmocka_unit_test(test_the_oldest_connection_makes_room)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
