/* Times of columns: forms that are read, and texts that are no times. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/job/job_columns.h"
#include "tests/cmocka_check.h"

static void times_are_read(void **state)
{
	static const struct {
		enum column_time form;
		const char *text;
		int64_t ms;
	} times[] = {{TIME_UNIX, "0", 0},
	             {TIME_UNIX, "1767225600", 1767225600000},
	             {TIME_UNIX, "-1", -1000},
	             {TIME_UNIX_MS, "1767225600123", 1767225600123},
	             {TIME_ISO8601, "1970-01-01", 0},
	             {TIME_ISO8601, "2026-01-01", 1767225600000},
	             {TIME_ISO8601, "2026-01-01T00:00:00Z", 1767225600000},
	             {TIME_ISO8601, "2026-01-01 01:02", 1767225600000 + 3720000},
	             {TIME_ISO8601, "2026-01-01T00:00:00.25", 1767225600250},
	             {TIME_ISO8601, "2026-01-01T00:00:00.123456Z", 1767225600123},
	             {TIME_ISO8601, "2026-01-01T02:00:00+02:00", 1767225600000},
	             {TIME_ISO8601, "2025-12-31T18:30:00-05:30", 1767225600000},
	             {TIME_ISO8601, "2000-02-29", 951782400000},
	             {TIME_ISO8601, "0001-01-01", -62135596800000}};
	(void)state;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		int64_t ms = 0;
		if (!job_time_read(times[i].form, times[i].text, strlen(times[i].text), &ms) || ms != times[i].ms)
			fail_msg("'%s' is read as %lld, not %lld", times[i].text, (long long)ms, (long long)times[i].ms);
	}
}

static void times_in_a_pattern_are_read(void **state)
{
	static const struct {
		const char *format, *text;
		int64_t ms; /* INT64_MIN: it is no time */
	} times[] = {{"%d.%m.%Y", "1.1.2026", 1767225600000},
	             {"%d.%m.%Y", "01.01.2026", 1767225600000},
	             {"%d.%m.%Y", "29.2.2026", INT64_MIN},
	             {"%d.%m.%Y", "1.1.2026 ", INT64_MIN},
	             {"%Y%m%d", "20260101", 1767225600000},
	             {"%Y%m%d%H", "2026010101", 1767225600000 + 3600000},
	             {"%y%m%d", "260101", 1767225600000},
	             {"%y%m%d", "700101", 0},
	             {"%m/%d/%Y %I:%M %p", "1/1/2026 12:05 am", 1767225600000 + 300000},
	             {"%m/%d/%Y %I:%M %p", "1/1/2026 12:05 PM", 1767225600000 + 43500000},
	             {"%m/%d/%Y %I:%M %p", "1/1/2026 13:05 PM", INT64_MIN},
	             {"%d/%b/%Y:%H:%M:%S %z", "01/Jan/2026:02:00:00 +0200", 1767225600000},
	             {"%d/%b/%Y:%H:%M:%S %z", "01/Jan/2026:02:00:00 +02:00", 1767225600000},
	             {"%d/%b/%Y:%H:%M:%S %z", "01/Jam/2026:02:00:00 +0200", INT64_MIN},
	             {"%F %T.%f", "2026-01-01 00:00:00.250001", 1767225600250},
	             {"%F %T%z", "2025-12-31 19:00:00-05", 1767225600000},
	             {"%F %T%z", "2026-01-01 00:00:00Z", 1767225600000},
	             {"100%% %Y", "100% 2026", 1767225600000},
	             {"%Y", "", INT64_MIN}};
	static const char *const wrong[] = {"", "%d.%m", "%Y%", "%Y %Q", "%Y %Y", "%Y %I", "%Y %p", "%Y %I %H %p", "seconds"};
	enum column_time form;
	(void)state;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		struct job_column c = {0};
		int64_t ms = INT64_MIN;
		snprintf(c.format, sizeof c.format, "%s", times[i].format);
		if (!job_time_format(c.format, &c.time))
			fail_msg("'%s' is no format", c.format);
		if (!job_column_time_read(&c, times[i].text, strlen(times[i].text), &ms))
			ms = INT64_MIN;
		if (ms != times[i].ms)
			fail_msg("'%s' as '%s' is %lld, not %lld", times[i].text, c.format, (long long)ms, (long long)times[i].ms);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (job_time_format(wrong[i], &form))
			fail_msg("'%s' is taken for a format", wrong[i]);
}

static void days_are_those_of_the_calendar(void **state)
{
	(void)state;
	for (int64_t day = -200000; day < 200000; day += 13) {
		const time_t seconds = day * 86400;
		struct tm tm;
		char text[64];
		int64_t ms = 0;
		assert_non_null(gmtime_r(&seconds, &tm));
		snprintf(text, sizeof text, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
		if (!job_time_read(TIME_ISO8601, text, strlen(text), &ms) || ms != day * 86400000)
			fail_msg("'%s' is read as %lld, not %lld", text, (long long)ms, (long long)day * 86400000);
	}
}

static void other_texts_are_no_times(void **state)
{
	static const char *const iso[] = {"",
	                                  "2026",
	                                  "2026-1-1",
	                                  "2026-13-01",
	                                  "2026-02-29",
	                                  "2026-00-10",
	                                  "2026-01-00",
	                                  "2026-01-01T",
	                                  "2026-01-01T24:00",
	                                  "2026-01-01T10:60",
	                                  "2026-01-01T10:00:60",
	                                  "2026-01-01T10:00:00.",
	                                  "2026-01-01T10:00X",
	                                  "2026-01-01T10:00+0200",
	                                  "2026-01-01 ",
	                                  "1767225600",
	                                  "0000-01-01"};
	static const char *const seconds[] = {"", "-", "1.5", "1e9", " 1", "1 ", "1234567890123456", "2026-01-01"};
	int64_t ms;
	(void)state;
	for (size_t i = 0; i < sizeof iso / sizeof *iso; i++)
		if (job_time_read(TIME_ISO8601, iso[i], strlen(iso[i]), &ms))
			fail_msg("'%s' is taken for a time", iso[i]);
	for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
		if (job_time_read(TIME_UNIX, seconds[i], strlen(seconds[i]), &ms))
			fail_msg("'%s' is taken for a time", seconds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(times_are_read),
	    cmocka_unit_test(times_in_a_pattern_are_read),
	    cmocka_unit_test(days_are_those_of_the_calendar),
	    cmocka_unit_test(other_texts_are_no_times),
	};
	return cmocka_run_group_tests_name("job_time", tests, NULL, NULL);
}
