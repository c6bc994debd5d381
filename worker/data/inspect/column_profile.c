#include "worker/data/inspect/column_profile.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/hash.h"
#include "common/base/prng.h"
#include "common/job/job.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/inspect/csv_dialect.h"

/* --- Numbers and dates */

/* Keeps a number of the sample: the i-th one replaces a kept one with probability size / i. */
static void keep_number(struct column_profile *p, double x, uint64_t seen)
{
	if (p->numbers_count < PROFILE_NUMBERS) {
		p->numbers[p->numbers_count++] = x;
		return;
	}
	const uint64_t place = prng_mix(1, seen, 0) % (seen + 1);
	if (place < PROFILE_NUMBERS)
		p->numbers[place] = x;
}

static void add_number(struct column_profile *p, double x)
{
	const uint64_t seen = p->whole + p->real + p->dates;
	p->low = seen == 0 || x < p->low ? x : p->low;
	p->high = seen == 0 || x > p->high ? x : p->high;
	p->rising += seen == 0 || x >= p->before;
	p->before = x;
	keep_number(p, x, seen);
}

static void count_number(struct column_profile *p, double x, bool whole)
{
	add_number(p, x);
	p->whole += whole;
	p->real += !whole;
}

/* Takes a text as a number or a date, if it is one. */
static void read_number(struct column_profile *p, const char *text, size_t n)
{
	double x;
	int64_t ms;
	if (csv_is_number(text, n, &x)) {
		count_number(p, x, !memchr(text, '.', n) && !memchr(text, 'e', n) && !memchr(text, 'E', n));
	} else if (job_time_read(TIME_ISO8601, text, n, &ms)) {
		add_number(p, (double)ms);
		p->dates++;
	}
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double column_profile_quantile(const struct column_profile *p, double share)
{
	double sorted[PROFILE_NUMBERS];
	if (p->numbers_count == 0)
		return 0;
	memcpy(sorted, p->numbers, p->numbers_count * sizeof *sorted);
	qsort(sorted, p->numbers_count, sizeof *sorted, by_size);
	return sorted[(size_t)(share * (p->numbers_count - 1))];
}

/* --- Values */

static void keep_value(struct column_profile *p, const char *text, size_t n)
{
	char cut[PROFILE_VALUE_BYTES];
	snprintf(cut, sizeof cut, "%.*s", n < sizeof cut ? (int)n : (int)sizeof cut - 1, text);
	for (uint32_t i = 0; i < p->values_count; i++)
		if (strcmp(p->values[i].text, cut) == 0) {
			p->values[i].count++;
			return;
		}
	p->values_more |= p->values_count == PROFILE_VALUES;
	if (p->values_count == PROFILE_VALUES)
		return;
	memcpy(p->values[p->values_count].text, cut, sizeof cut);
	p->values[p->values_count++].count = 1;
}

/* --- Lists */

static void add_id(struct list_profile *l, const char *text, size_t n)
{
	bool digit = false;
	if (n == 0)
		return;
	for (size_t i = 0; i < n && !digit; i++)
		digit = isdigit((unsigned char)text[i]);
	l->ids++;
	l->digits += digit;
	l->spaced += *text == ' ';
	l->longest_id = n > l->longest_id ? n : l->longest_id;
	hyperloglog_add(&l->distinct, hash_bytes(text, n, 0));
}

static void add_list(struct list_profile *l, const char *text, size_t n)
{
	const char *at = text, *end = text + n;
	uint32_t ids = 0;
	for (; at <= end; ids++) {
		const char *stop = memchr(at, l->separator, (size_t)(end - at));
		add_id(l, at, (size_t)((stop ? stop : end) - at));
		at = (stop ? stop : end) + 1;
	}
	l->cells += ids > 1;
	l->longest_list = ids > l->longest_list ? ids : l->longest_list;
}

/* Takes the cell as a list by the separator that most cells have. Of two, the first of the table
 * wins; a list begins anew when another one takes the lead. */
static void see_list(struct column_profile *p, const char *text, size_t n)
{
	unsigned lead = 0;
	for (unsigned i = 0; i < PROFILE_SEPARATORS_COUNT; i++) {
		p->having[i] += memchr(text, PROFILE_SEPARATORS[i], n) != NULL;
		lead = p->having[i] > p->having[lead] ? i : lead;
	}
	if (p->having[lead] == 0)
		return;
	if (p->list.separator != PROFILE_SEPARATORS[lead])
		p->list = (struct list_profile){.separator = PROFILE_SEPARATORS[lead]};
	add_list(&p->list, text, n);
}

/* --- Cells */

size_t column_profile_time_text(int64_t ms, char out[PROFILE_VALUE_BYTES])
{
	const int64_t fraction = ms % 1000 + (ms % 1000 < 0 ? 1000 : 0);
	const time_t seconds = (time_t)((ms - fraction) / 1000);
	struct tm tm;
	size_t n = gmtime_r(&seconds, &tm) ? strftime(out, PROFILE_VALUE_BYTES, "%Y-%m-%dT%H:%M:%S", &tm) : 0;
	if (n == 0)
		return (size_t)snprintf(out, PROFILE_VALUE_BYTES, "%" PRId64, ms);
	if (fraction > 0)
		n += (size_t)snprintf(out + n, PROFILE_VALUE_BYTES - n, ".%03d", (int)fraction);
	return n;
}

/* Writes a number with as few digits as tell it from others. */
static size_t number_text(float x, char out[PROFILE_VALUE_BYTES])
{
	int n = 0;
	for (int digits = 6; digits <= 9; digits += 3) {
		n = snprintf(out, PROFILE_VALUE_BYTES, "%.*g", digits, (double)x);
		if (strtof(out, NULL) == x)
			break;
	}
	return (size_t)n;
}

/* Writes a list as texts have it, cut to a value's size. */
static size_t list_text(const char *ids, size_t n, char out[PROFILE_VALUE_BYTES])
{
	const size_t cut = n < PROFILE_VALUE_BYTES ? n : PROFILE_VALUE_BYTES - 1;
	for (size_t i = 0; i < cut; i++)
		out[i] = ids[i] ? ids[i] : '|';
	out[cut] = 0;
	return cut;
}

/* Counts a cell by its text. Returns false if it is empty. */
static bool count_cell(struct column_profile *p, const char *text, size_t n)
{
	const uint64_t hash = hash_bytes(text, n, 0);
	p->first = p->rows == 0 ? hash : p->first;
	p->pattern = hash_u64(p->pattern + (hash == p->first) + 1);
	p->rows++;
	p->empty += n == 0;
	if (n == 0)
		return false;
	p->bytes += n;
	p->longest = n > p->longest ? n : p->longest;
	p->spaced += memchr(text, ' ', n) != NULL;
	hyperloglog_add(&p->distinct, hash);
	return true;
}

static void add_text(struct column_profile *p, const char *text, size_t n)
{
	if (!count_cell(p, text, n))
		return;
	keep_value(p, text, n);
	read_number(p, text, n);
	if (p->lists == 0)
		see_list(p, text, n);
}

/* Adds a list, whose ids have a zero byte behind each. */
static void add_ids(struct column_profile *p, const char *ids, size_t n)
{
	char shown[PROFILE_VALUE_BYTES];
	n -= n > 0;
	if (!count_cell(p, ids, n))
		return;
	keep_value(p, shown, list_text(ids, n, shown));
	if (p->lists++ == 0)
		p->list = (struct list_profile){.separator = 0};
	add_list(&p->list, ids, n);
}

void column_profile_add(struct column_profile *p, const struct cell *cell)
{
	char text[PROFILE_VALUE_BYTES];
	size_t n;
	switch (cell->form) {
	case CELL_TEXT:
		add_text(p, cell->text, cell->n);
		break;
	case CELL_LIST:
		add_ids(p, cell->text, cell->n);
		break;
	case CELL_NUMBER:
		n = number_text(cell->number, text);
		(void)count_cell(p, text, n);
		keep_value(p, text, n);
		count_number(p, (double)cell->number, floorf(cell->number) == cell->number);
		break;
	case CELL_TIME:
		n = column_profile_time_text(cell->time_ms, text);
		(void)count_cell(p, text, n);
		keep_value(p, text, n);
		add_number(p, (double)cell->time_ms);
		p->dates++;
		break;
	}
}

void column_profile_add_broken(struct column_profile *p)
{
	p->rows++;
	p->broken++;
}

uint64_t column_profile_given(const struct column_profile *p)
{
	return p->rows - p->empty - p->broken;
}
