/* Times of columns and of data.split, as milliseconds since 1970-01-01 UTC.
 *
 * A pattern is like strptime's: %Y %y years, %m %b months, %d days, %H or %I with %p hours, %M
 * minutes, %S seconds, %f a fraction of a second, %z a zone, %F = %Y-%m-%d, %T = %H:%M:%S, %% a
 * percent sign; other characters are themselves. Without a zone a time is UTC; what is not given
 * is the least: the first month, the first day, midnight. */
#include <string.h>
#include <strings.h>

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

/* --- Patterns */

struct fields {
	int year, month, day, hour, minute, second, offset_minutes;
	int64_t fraction_ms;
	bool of_12, afternoon;
};

/* Reads one to `digits` digits. */
static bool read_up_to(const char **at, const char *end, int digits, int *out)
{
	int digit;
	bool any = false;
	for (*out = 0; digits > 0 && *at < end && read_number(at, end, 1, &digit); digits--, any = true)
		*out = *out * 10 + digit;
	return any;
}

static bool read_month_name(const char **at, const char *end, int *month)
{
	static const char names[] = "janfebmaraprmayjunjulaugsepoctnovdec";
	for (*month = 1; *month <= 12 && end - *at >= 3; ++*month)
		if (strncasecmp(*at, names + 3 * (*month - 1), 3) == 0) {
			*at += 3;
			return true;
		}
	return false;
}

static bool read_half(const char **at, const char *end, bool *afternoon)
{
	if (end - *at < 2 || (strncasecmp(*at, "am", 2) != 0 && strncasecmp(*at, "pm", 2) != 0))
		return false;
	*afternoon = **at == 'p' || **at == 'P';
	*at += 2;
	return true;
}

/* Z, +hhmm, +hh:mm or +hh */
static bool read_offset(const char **at, const char *end, int *minutes)
{
	int hour, minute = 0;
	if (skip(at, end, 'Z')) {
		*minutes = 0;
		return true;
	}
	const int sign = *at < end && **at == '-' ? -1 : 1;
	if ((!skip(at, end, '+') && !skip(at, end, '-')) || !read_number(at, end, 2, &hour))
		return false;
	if ((skip(at, end, ':') || *at < end) && !read_number(at, end, 2, &minute))
		return false;
	*minutes = sign * (hour * 60 + minute);
	return hour < 24 && minute < 60;
}

static bool read_fraction(const char **at, const char *end, int64_t *ms)
{
	int digit, digits = 0, scale = 100;
	for (*ms = 0; *at < end && read_number(at, end, 1, &digit); scale /= 10, digits++)
		*ms += digit * scale;
	return digits > 0;
}

/* Reads what one conversion of a pattern stands for. */
static bool read_conversion(char conversion, const char **at, const char *end, struct fields *f)
{
	switch (conversion) {
	case 'Y':
		return read_number(at, end, 4, &f->year);
	case 'y':
		if (!read_number(at, end, 2, &f->year))
			return false;
		f->year += f->year < 69 ? 2000 : 1900; /* as POSIX has it */
		return true;
	case 'm':
		return read_up_to(at, end, 2, &f->month);
	case 'b':
		return read_month_name(at, end, &f->month);
	case 'd':
		return read_up_to(at, end, 2, &f->day);
	case 'I':
		f->of_12 = true;
		return read_up_to(at, end, 2, &f->hour);
	case 'H':
		return read_up_to(at, end, 2, &f->hour);
	case 'p':
		return read_half(at, end, &f->afternoon);
	case 'M':
		return read_up_to(at, end, 2, &f->minute);
	case 'S':
		return read_up_to(at, end, 2, &f->second);
	case 'f':
		return read_fraction(at, end, &f->fraction_ms);
	case 'z':
		return read_offset(at, end, &f->offset_minutes);
	case 'F':
		return read_number(at, end, 4, &f->year) && skip(at, end, '-') && read_number(at, end, 2, &f->month) &&
		       skip(at, end, '-') && read_number(at, end, 2, &f->day);
	case 'T':
		return read_number(at, end, 2, &f->hour) && skip(at, end, ':') && read_number(at, end, 2, &f->minute) &&
		       skip(at, end, ':') && read_number(at, end, 2, &f->second);
	default:
		return skip(at, end, '%');
	}
}

static bool is_complete(const struct fields *f)
{
	const bool hour = f->of_12 ? f->hour >= 1 && f->hour <= 12 : f->hour < 24;
	return is_date(f->year, f->month, f->day) && hour && f->minute < 60 && f->second < 60;
}

static bool read_pattern(const char *pattern, const char *at, const char *end, int64_t *ms)
{
	struct fields f = {.month = 1, .day = 1};
	for (; *pattern; pattern++)
		if (*pattern == '%' ? !read_conversion(*++pattern, &at, end, &f) : !skip(&at, end, *pattern))
			return false;
	if (at != end || !is_complete(&f))
		return false;
	const int hour = f.of_12 ? f.hour % 12 + 12 * f.afternoon : f.hour;
	*ms = days_of(f.year, f.month, f.day) * DAY_MS + (((int64_t)hour * 60 + f.minute - f.offset_minutes) * 60 + f.second) * 1000 +
	      f.fraction_ms;
	return true;
}

/* Whether a text has conversions that are known, each once, and among them a year. */
static bool is_pattern(const char *text)
{
	char seen[WEIR_COLUMN_FORMAT_BYTES_MAX] = "";
	size_t count = 0;
	for (; *text; text++) {
		if (*text != '%')
			continue;
		if (!*++text || !strchr("YymbdHIpMSfzFT%", *text) || (*text != '%' && strchr(seen, *text)))
			return false;
		seen[count++] = *text;
	}
	const bool half = strchr(seen, 'I') != NULL;
	return strpbrk(seen, "YyF") && half == (strchr(seen, 'p') != NULL) && !(half && strpbrk(seen, "HT"));
}

bool job_time_format(const char *format, enum column_time *out)
{
	*out = strcmp(format, "unix") == 0      ? TIME_UNIX
	       : strcmp(format, "unix_ms") == 0 ? TIME_UNIX_MS
	       : strcmp(format, "iso8601") == 0 ? TIME_ISO8601
	                                        : TIME_PATTERN;
	return *out != TIME_PATTERN || is_pattern(format);
}

bool job_column_time_read(const struct job_column *c, const char *text, size_t n, int64_t *ms)
{
	return c->time == TIME_PATTERN ? read_pattern(c->format, text, text + n, ms) : job_time_read(c->time, text, n, ms);
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
	return !*text || (c && job_column_time_read(c, text, strlen(text), ms));
}
