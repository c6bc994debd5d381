/* Times of columns and of data.split, as milliseconds since 1970-01-01 UTC. */
#include <string.h>

#include "common/job/job.h"

#define DAY_MS 86400000

/* Reads exactly `digits` digits. */
static bool read_number(const char **at, const char *end, int digits, int *out)
{
	*out = 0;
	for (; digits > 0; digits--, (*at)++) {
		if (*at == end || **at < '0' || **at > '9')
			return false;
		*out = *out * 10 + (**at - '0');
	}
	return true;
}

static bool skip(const char **at, const char *end, char c)
{
	const bool there = *at < end && **at == c;
	*at += there;
	return there;
}

/* Days since 1970-01-01 in the Gregorian calendar: years count from March, so that a leap day is
 * the last day of its year. */
static int64_t days_of(int year, int month, int day)
{
	const int64_t y = month > 2 ? year : year - 1;
	const int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	return 365 * y + y / 4 - y / 100 + y / 400 + of_year - 719468;
}

static bool is_date(int year, int month, int day)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return year > 0 && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] + (month == 2 && leap);
}

/* hh:mm[:ss[.fraction]] */
static bool read_clock(const char **at, const char *end, int64_t *ms)
{
	int hour, minute, second = 0, fraction = 0;
	if (!read_number(at, end, 2, &hour) || !skip(at, end, ':') || !read_number(at, end, 2, &minute))
		return false;
	if (skip(at, end, ':') && !read_number(at, end, 2, &second))
		return false;
	if (skip(at, end, '.')) {
		int scale = 100, digit, digits = 0;
		for (; *at < end && read_number(at, end, 1, &digit); scale /= 10, digits++)
			fraction += digit * scale;
		if (digits == 0)
			return false;
	}
	*ms += ((hour * 60 + minute) * 60 + second) * INT64_C(1000) + fraction;
	return hour < 24 && minute < 60 && second < 60;
}

/* Z, +hh:mm or nothing, which is UTC. */
static bool read_zone(const char **at, const char *end, int64_t *ms)
{
	int hour, minute;
	if (*at == end || skip(at, end, 'Z'))
		return true;
	const int sign = **at == '-' ? 1 : -1;
	if (!skip(at, end, '+') && !skip(at, end, '-'))
		return false;
	if (!read_number(at, end, 2, &hour) || !skip(at, end, ':') || !read_number(at, end, 2, &minute))
		return false;
	*ms += sign * (hour * 60 + minute) * INT64_C(60000);
	return hour < 24 && minute < 60;
}

/* YYYY-MM-DD[{T| }CLOCK[ZONE]] */
static bool read_iso8601(const char *at, const char *end, int64_t *ms)
{
	int year, month, day;
	if (!read_number(&at, end, 4, &year) || !skip(&at, end, '-') || !read_number(&at, end, 2, &month) || !skip(&at, end, '-') ||
	    !read_number(&at, end, 2, &day) || !is_date(year, month, day))
		return false;
	*ms = days_of(year, month, day) * DAY_MS;
	if ((skip(&at, end, 'T') || skip(&at, end, ' ')) && (!read_clock(&at, end, ms) || !read_zone(&at, end, ms)))
		return false;
	return at == end;
}

/* A whole number of seconds or milliseconds, of at most 15 digits. */
static bool read_unix(const char *at, const char *end, int64_t unit_ms, int64_t *ms)
{
	const bool negative = skip(&at, end, '-');
	int64_t number = 0;
	if (at == end || end - at > 15)
		return false;
	for (; at < end; at++) {
		if (*at < '0' || *at > '9')
			return false;
		number = number * 10 + (*at - '0');
	}
	*ms = (negative ? -number : number) * unit_ms;
	return true;
}

bool job_time_read(enum column_time form, const char *text, size_t n, int64_t *ms)
{
	if (form == TIME_ISO8601)
		return read_iso8601(text, text + n, ms);
	return read_unix(text, text + n, form == TIME_UNIX ? 1000 : 1, ms);
}

const struct job_column *job_split_column(const struct job *job)
{
	const enum column_kind kind = job->data.split.by == SPLIT_TIME ? COLUMN_TIME : COLUMN_GROUP;
	if (job->data.split.by != SPLIT_TIME && job->data.split.by != SPLIT_GROUP)
		return NULL;
	if (job->data.split.column[0])
		return job_column_find(job, job->data.split.column);
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		if (job->data.columns[i].kind == kind)
			return &job->data.columns[i];
	return NULL;
}

bool job_split_time(const struct job *job, const char *text, int64_t *ms)
{
	const struct job_column *c = job_split_column(job);
	*ms = INT64_MAX;
	return !*text || (c && job_time_read(c->time, text, strlen(text), ms));
}
