#include "common/web/http_server.h"
#include "tests/cmocka_check.h"

#include <stdbool.h>
#include <stdio.h>

#include "common/base/limits.h"
#include "tests/http_ask.h"

static const struct http_names none;

static void page(void *arg, const char *path, struct http_page *out)
{
	(void)arg;
	const bool known = strcmp(path, "/metrics") == 0;
	*out = (struct http_page){
	    .code = known ? HTTP_OK : HTTP_NOT_FOUND, .type = "text/plain", .text = strcmp(path, "/none") ? strdup(path) : NULL};
}

static void answers_what_page_makes(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	char reply[4096];
	assert_int_equal(http_server_start(&s, "0", none, page, NULL, &err), WEIR_OK);
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

static void refuses_addresses(void **state)
{
	(void)state;
	static const char *const wrong[] = {"",      "x",      "65536", "-1",      "127.0.0.1:",    "localhost:80", "1.2.3.4.5:80",
	                                    "1:2:3", "::1:80", "[::1]", "[::1:80", "[localhost]:80"};
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct http_server *s;
		weir_error err = {0};
		assert_int_equal(http_server_start(&s, wrong[i], none, page, NULL, &err), WEIR_E_INVALID);
		assert_null(s);
		assert_non_null(strstr(err.text, wrong[i]));
	}
}

/* The reply's code for a request of HTTP/1.`minor` with this Host. */
static unsigned code_of(const struct http_server *s, int minor, const char *host)
{
	char request[256], reply[4096];
	snprintf(request, sizeof request, "GET /metrics HTTP/1.%d\r\n%s%s%sConnection: close\r\n\r\n", minor, host ? "Host: " : "",
	         host ? host : "", host ? "\r\n" : "");
	http_ask(http_server_address(s), request, reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1."), reply);
	return (unsigned)atoi(reply + strlen("HTTP/1.1 "));
}

static unsigned code_for(const struct http_server *s, const char *host)
{
	return code_of(s, 1, host);
}

static void answers_by_its_own_names_alone(void **state)
{
	(void)state;
	static const char *const items[] = {"weir.example", "other"};
	static const char *const good[] = {"localhost", "LOCALHOST:80", "localhost.",      "127.0.0.1:9", "127.1.2.3",
	                                   "[::1]:80",  "[::1]",        "Weir.Example:80", "other"};
	static const char *const bad[] = {"evil.example",
	                                  "evil.example:80",
	                                  "localhost.evil.example",
	                                  "127.0.0.1.evil.example",
	                                  "10.0.0.1",
	                                  "[fe80::1]",
	                                  "",
	                                  ":80",
	                                  "weir.example.evil",
	                                  "localhost:80:x",
	                                  "0x7f.1"};
	struct http_server *s;
	weir_error err = {0};
	assert_int_equal(http_server_start(&s, "0", (struct http_names){items, 2}, page, NULL, &err), WEIR_OK);
	for (unsigned i = 0; i < sizeof good / sizeof *good; i++)
		if (code_for(s, good[i]) != 200)
			fail_msg("Host: %s gets %u", good[i], code_for(s, good[i]));
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		if (code_for(s, bad[i]) != 403)
			fail_msg("Host: %s gets %u", bad[i], code_for(s, bad[i]));
	assert_int_equal(code_of(s, 0, NULL), 200);
	assert_int_equal(code_of(s, 1, NULL), 400); /* RFC 9112, 3.2 */
	http_server_stop(s);
	assert_int_equal(http_server_start(&s, "0.0.0.0:0", none, page, NULL, &err), WEIR_OK);
	/* DNS rebinding needs a name; a number is safe */
	assert_int_equal(code_for(s, "10.0.0.1:80"), 200);
	assert_int_equal(code_for(s, "evil.example"), 403);
	http_server_stop(s);
}

static void serves_ipv6(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	if (http_server_start(&s, "[::1]:0", none, page, NULL, &err) == WEIR_E_IO)
		skip(); /* no IPv6 on this machine */
	assert_int_equal(err.status, WEIR_OK);
	assert_ptr_equal(strstr(http_server_address(s), "[::1]:"), http_server_address(s));
	http_server_stop(s);
}

static void port_in_use(void **state)
{
	(void)state;
	struct http_server *first, *second;
	weir_error err = {0};
	assert_int_equal(http_server_start(&first, "127.0.0.1:0", none, page, NULL, &err), WEIR_OK);
	assert_int_equal(http_server_start(&second, http_server_address(first), none, page, NULL, &err), WEIR_E_IO);
	assert_non_null(strstr(err.text, http_server_address(first)));
	http_server_stop(first);
}

static void a_head_that_is_too_long(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	char reply[4096], *request = malloc(2 * WEIR_HTTP_REQUEST_BYTES_MAX);
	assert_int_equal(http_server_start(&s, "0", none, page, NULL, &err), WEIR_OK);
	memset(request, 'a', 2 * WEIR_HTTP_REQUEST_BYTES_MAX);
	memcpy(request, "GET /", 5);
	request[WEIR_HTTP_REQUEST_BYTES_MAX + 100] = '\0';
	http_ask(http_server_address(s), request, reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 414"), reply);
	http_server_stop(s);
	free(request);
}

/* A new connection closes the oldest one that is idle. */
static void the_oldest_connection_makes_room(void **state)
{
	(void)state;
	struct http_server *s;
	weir_error err = {0};
	char reply[4096];
	int slow[WEIR_HTTP_CONNECTIONS_MAX];
	assert_int_equal(http_server_start(&s, "0", none, page, NULL, &err), WEIR_OK);
	for (unsigned i = 0; i < WEIR_HTTP_CONNECTIONS_MAX; i++)
		slow[i] = http_begin(http_server_address(s), "GET /met");
	http_ask(http_server_address(s), "GET /metrics" HTTP_HEAD "\r\n", reply, sizeof reply);
	assert_ptr_equal(strstr(reply, "HTTP/1.1 200"), reply);
	http_end(slow[0], reply, sizeof reply); /* the server has closed it */
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(answers_what_page_makes),
	                                   cmocka_unit_test(refuses_addresses),
	                                   cmocka_unit_test(answers_by_its_own_names_alone),
	                                   cmocka_unit_test(serves_ipv6),
	                                   cmocka_unit_test(port_in_use),
	                                   cmocka_unit_test(a_head_that_is_too_long),
	                                   cmocka_unit_test(the_oldest_connection_makes_room)};
	return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
