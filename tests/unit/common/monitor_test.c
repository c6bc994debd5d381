#include "common/metrics/monitor.h"
#include "tests/cmocka_check.h"

#include "tests/http_ask.h"

static weir_status series(void *arg, FILE *out, weir_error *err)
{
	if (*(const bool *)arg)
		return weir_fail(err, WEIR_E_UNAVAILABLE, "nobody answers");
	fputs("weir_told 1\n", out);
	return WEIR_OK;
}

static weir_status ready(void *arg, weir_error *err)
{
	return *(const bool *)arg ? weir_fail(err, WEIR_E_UNAVAILABLE, "not yet") : WEIR_OK;
}

static bool other_page(void *arg, const char *path, struct http_page *out)
{
	(void)arg;
	if (strcmp(path, "/mine") != 0)
		return false;
	*out = (struct http_page){.code = HTTP_OK, .type = "text/html", .text = strdup("mine")};
	return true;
}

static const char *get(const struct monitor *m, const char *path, char reply[65536])
{
	char request[256];
	snprintf(request, sizeof request, "GET %s" HTTP_HEAD "\r\n", path);
	http_ask(monitor_address(m), request, reply, 65536);
	return reply;
}

static void pages_say_whether_and_how_it_is(void **state)
{
	(void)state;
	static char reply[65536];
	bool away = false;
	struct metrics *metrics = metrics_create();
	struct monitor *m;
	weir_error err = {0};
	counter_add(metrics_counter(metrics, "weir_counted_total", "", "Counted."), 3);
	const struct monitor_options o = {
	    .address = "0", .metrics = metrics, .series = series, .ready = ready, .page = other_page, .arg = &away};
	assert_int_equal(monitor_start(&m, &o, &err), WEIR_OK);
	CHECK_CONTAINS(get(m, "/metrics", reply), "HTTP/1.1 200");
	CHECK_CONTAINS(reply, "version=0.0.4");
	CHECK_CONTAINS(reply, "\nweir_counted_total 3\n");
	CHECK_CONTAINS(reply, "\nweir_told 1\n");
	CHECK_CONTAINS(reply, "\nprocess_open_fds ");
	CHECK_CONTAINS(get(m, "/readyz", reply), "HTTP/1.1 200");
	CHECK_CONTAINS(get(m, "/mine", reply), "text/html");
	CHECK_CONTAINS(get(m, "/other", reply), "HTTP/1.1 404");
	away = true;
	CHECK_CONTAINS(get(m, "/metrics", reply), "HTTP/1.1 503");
	CHECK_CONTAINS(reply, "\n# nobody answers\n");
	CHECK_CONTAINS(get(m, "/readyz", reply), "HTTP/1.1 503");
	CHECK_CONTAINS(reply, "\n# not yet\n");
	CHECK_CONTAINS(get(m, "/healthz", reply), "HTTP/1.1 200");
	monitor_stop(m);
	metrics_destroy(metrics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pages_say_whether_and_how_it_is)};
	return cmocka_run_group_tests_name("monitor", tests, NULL, NULL);
}
