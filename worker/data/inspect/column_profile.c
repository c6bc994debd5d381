#include "worker/data/inspect/column_profile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/prng.h"
#include "common/job/job.h"
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

static void read_number(struct column_profile *p, const char *text, size_t n)
{
	double x;
	int64_t ms;
	if (csv_is_number(text, n, &x)) {
		const bool whole = !memchr(text, '.', n) && !memchr(text, 'e', n) && !memchr(text, 'E', n);
		add_number(p, x);
		p->few += x == 0 || x == 1 || x == 2;
		p->whole += whole;
		p->real += !whole;
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

void column_profile_add(struct column_profile *p, const char *text, size_t n)
{
	const uint64_t hash = hash_bytes(text, n, 0);
	p->first = p->rows == 0 ? hash : p->first;
	p->pattern = hash_u64(p->pattern + (hash == p->first) + 1);
	p->rows++;
	if (n == 0) {
		p->empty++;
		return;
	}
	read_number(p, text, n);
	p->bytes += n;
	p->longest = n > p->longest ? n : p->longest;
	p->spaced += memchr(text, ' ', n) != NULL;
	hyperloglog_add(&p->distinct, hash);
	keep_value(p, text, n);
	see_list(p, text, n);
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
