/* Log lines as text and as JSON, levels, the rate limit, threads. */
#include "common/system/logger.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "tests/cmocka_check.h"

struct fake_clock {
	struct clock base;
	int64_t now_ns;
};

static int64_t fake_ns(const struct clock *self)
{
	return ((const struct fake_clock *)self)->now_ns;
}

static const struct clock_ops fake_ops = {.monotonic_ns = fake_ns, .wall_ns = fake_ns};

struct fixture {
	struct fake_clock clock;
	FILE *file;
	struct logger *l;
	char text[1 << 18];
};

static struct fixture *fixture_make(enum log_level level, enum log_format format)
{
	struct fixture *f = calloc(1, sizeof *f);
	f->clock = (struct fake_clock){.base = {.ops = &fake_ops}, .now_ns = INT64_C(1700000000123456789)};
	f->file = tmpfile();
	assert_non_null(f->file);
	f->l = logger_create(
	    &(struct logger_options){.out = f->file, .level = level, .format = format, .who = "server-0", .clock = &f->clock.base});
	return f;
}

static const char *written(struct fixture *f)
{
	ssize_t n = pread(fileno(f->file), f->text, sizeof f->text - 1, 0);
	assert_true(n >= 0);
	f->text[n] = 0;
	return f->text;
}

static void fixture_free(struct fixture *f)
{
	logger_destroy(f->l);
	fclose(f->file);
	free(f);
}

static void a_line_for_people(void **state)
{
	(void)state;
	struct fixture *f = fixture_make(LOG_INFO, LOG_HUMAN);
	LOG_AT(f->l, LOG_WARN, "worker lost", "worker=%d text=%s", 3, "two\nlines");
	LOG_AT(f->l, LOG_DEBUG, "not", "shown=1");
	assert_string_equal(written(f), "2023-11-14T22:13:20.123Z warn  server-0: worker lost worker=3 text=two lines\n");
	fixture_free(f);
}

static void a_line_for_machines(void **state)
{
	(void)state;
	struct fixture *f = fixture_make(LOG_DEBUG, LOG_JSON);
	LOG_AT(f->l, LOG_ERROR, "bad \"line\"", "path=C:\\x tab=\t end=%s", "\xc3\xa9\xff\xed\xa0\x80");
	assert_string_equal(
	    written(f),
	    "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"error\",\"who\":\"server-0\",\"event\":\"bad \\\"line\\\"\","
	    "\"detail\":\"path=C:\\\\x tab=\\u0009 end=\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\"}\n");
	fixture_free(f);
}

static void levels_have_names(void **state)
{
	(void)state;
	enum log_level level;
	assert_true(log_level_from("debug", &level) && level == LOG_DEBUG);
	assert_true(log_level_from("error", &level) && level == LOG_ERROR);
	assert_false(log_level_from("loud", &level));
	logger_write(NULL, LOG_ERROR, NULL, "nobody", "listens=1");
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;
	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void a_site_is_rate_limited_and_says_what_it_left_out(void **state)
{
	(void)state;
	struct fixture *f = fixture_make(LOG_INFO, LOG_HUMAN);
	struct log_site site = {0}, other = {0};
	for (int i = 0; i < 100; i++)
		logger_write(f->l, LOG_INFO, &site, "tick", "i=%d", i);
	logger_write(f->l, LOG_INFO, &other, "other", "i=%d", 0);
	assert_int_equal(count_lines(written(f)), WEIR_LOG_SITE_LINES_MAX + 1);
	f->clock.now_ns += 1000000000;
	logger_write(f->l, LOG_INFO, &site, "tick", "i=%d", 100);
	CHECK_CONTAINS(written(f), "tick i=100 (90 like this left out)\n");
	f->clock.now_ns += 1000000000;
	logger_write(f->l, LOG_INFO, &site, "tick", "i=%d", 101);
	CHECK_CONTAINS(written(f), "tick i=101\n");
	fixture_free(f);
}

static void a_long_line_is_cut(void **state)
{
	(void)state;
	char *big = malloc(3 * WEIR_LOG_LINE_BYTES_MAX);
	memset(big, 'x', 3 * WEIR_LOG_LINE_BYTES_MAX - 1);
	big[3 * WEIR_LOG_LINE_BYTES_MAX - 1] = 0;
	for (int format = LOG_HUMAN; format <= LOG_JSON; format++) {
		struct fixture *f = fixture_make(LOG_INFO, (enum log_format)format);
		logger_write(f->l, LOG_INFO, NULL, "big", "%s", big);
		const char *text = written(f);
		assert_int_equal(count_lines(text), 1);
		assert_true(strlen(text) <= WEIR_LOG_LINE_BYTES_MAX + 16);
		CHECK_CONTAINS(text, format == LOG_JSON ? "x...\"}\n" : "x...\n");
		fixture_free(f);
	}
	free(big);
}

static void *write_lines(void *arg)
{
	static struct log_site site;
	struct fixture *f = arg;
	for (int i = 0; i < 200; i++) {
		logger_write(f->l, LOG_INFO, NULL, "line", "xxxxxxxxxxxxxxxxxxxxxxxx");
		logger_write(f->l, LOG_INFO, &site, "limited", "site=shared");
	}
	return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
	(void)state;
	struct fixture *f = fixture_make(LOG_INFO, LOG_HUMAN);
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_lines, f), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	static const char whole_line[] = "2023-11-14T22:13:20.123Z info  server-0: line xxxxxxxxxxxxxxxxxxxxxxxx\n";
	unsigned whole = 0;
	for (const char *at = written(f); *at; at = strchr(at, '\n') + 1) {
		if (strstr(at, "limited") && strstr(at, "limited") < strchr(at, '\n'))
			continue;
		assert_true(strncmp(at, whole_line, strlen(whole_line)) == 0);
		whole++;
	}
	assert_int_equal(whole, 800);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_for_people),  cmocka_unit_test(a_line_for_machines),
	    cmocka_unit_test(levels_have_names),  cmocka_unit_test(a_site_is_rate_limited_and_says_what_it_left_out),
	    cmocka_unit_test(a_long_line_is_cut), cmocka_unit_test(lines_of_threads_do_not_mix),
	};
	return cmocka_run_group_tests_name("logger", tests, NULL, NULL);
}
