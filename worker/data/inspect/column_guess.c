#include "worker/data/inspect/column_guess.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/inspect/column_name.h"

#define TIME_LOW       946684800.0  /* 2000-01-01 in seconds since 1970 */
#define TIME_HIGH      4102444800.0 /* 2100-01-01 */
#define ROW_ID_SHARE   0.97         /* of the cells are different: a number of the row */
#define LIST_SHARE     0.05         /* of the cells have the separator */
#define LIST_ID_BYTES  48u          /* longest id of a list */
#define TEXT_BYTES     200u         /* a longer value is free text */
#define SHARED_IDS     0.5          /* of the ids of a list are those of another column */
#define SHARED_IDS_MIN 16.0
#define VALUES_OF_CODE 64.0 /* whole numbers with so few values may be codes */
#define ROWS_THAT_TELL 1000 /* fewer do not show whether values come again */

/* A table of columns. */
struct table {
	char *const *names;
	const struct column_profile *profiles;
	struct column_guess *guesses;
	uint32_t count;
};

#define WHY(g, ...) snprintf((g)->why, GUESS_WHY_BYTES, __VA_ARGS__)

static double distinct(const struct column_profile *p)
{
	return hyperloglog_count(&p->distinct);
}

static bool all_numbers(const struct column_profile *p)
{
	return p->whole + p->real > 0 && p->whole + p->real == column_profile_given(p) && p->broken == 0;
}

static bool has_two_values(const struct column_profile *p)
{
	return p->values_count == 2 && !p->values_more && p->broken == 0;
}

/* --- Labels */

static bool is_binary(const struct column_profile *p)
{
	return has_two_values(p) && p->empty == 0 && p->whole + p->real == p->rows && (p->low == 0 || p->low == -1) && p->high == 1;
}

/* How well a column would do as the label; 0: not at all. */
static unsigned label_score(const struct table *t, uint32_t i)
{
	const struct column_profile *p = &t->profiles[i];
	const unsigned name = column_name_label(t->names[i]);
	if (p->type.is != TYPE_TEXT && p->type.is != TYPE_REAL)
		return 0;
	const bool outcome = name > 0 && p->empty == 0 && has_two_values(p) && p->type.is == TYPE_TEXT;
	const bool rating = name > 0 && all_numbers(p) && p->empty == 0 && distinct(p) < 102 && p->low < floor(0.6 * p->high);
	if (is_binary(p))
		return 200 + name + (i == 0 ? 30u : i + 1 == t->count ? 20u : 0u);
	if (outcome)
		return 100 + name;
	return rating ? 100 + name : 0;
}

/* Of two texts, the positive one is the rarer, unless one of them says so. */
static const struct profile_value *positive_of(const struct column_profile *p)
{
	static const char *const says[] = {"1", "true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "t", "T"};
	for (uint32_t v = 0; v < p->values_count; v++)
		for (size_t i = 0; i < sizeof says / sizeof *says; i++)
			if (strcmp(p->values[v].text, says[i]) == 0)
				return &p->values[v];
	return &p->values[p->values[1].count < p->values[0].count];
}

static void guess_label(const struct table *t, uint32_t i)
{
	const struct column_profile *p = &t->profiles[i];
	struct column_guess *g = &t->guesses[i];
	*g = (struct column_guess){.kind = COLUMN_LABEL, .share = -1};
	if (is_binary(p)) {
		const uint64_t positive = p->values[0].text[0] == '1' ? p->values[0].count : p->values[1].count;
		WHY(g, "%.1f %% are positive", 100 * (double)positive / (double)p->rows);
	} else if (has_two_values(p) && p->type.is == TYPE_TEXT) {
		const struct profile_value *positive = positive_of(p);
		snprintf(g->positive, sizeof g->positive, "%s", positive->text);
		WHY(g, "%.1f %% are positive", 100 * (double)positive->count / (double)p->rows);
	} else {
		g->has_above = true;
		g->above = floor(0.6 * p->high); /* 4 of 5 stars, 7 of 10 points */
		WHY(g, "%g to %g; those above %g are positive", p->low, p->high, g->above);
	}
}

static int64_t choose_label(const struct table *t)
{
	int64_t best = -1;
	unsigned most = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		const unsigned score = label_score(t, i);
		if (score > most) {
			most = score;
			best = i;
		}
	}
	if (best >= 0)
		guess_label(t, (uint32_t)best);
	return best;
}

/* Leaves out columns that tell the label: copies of it, and what follows from a click. */
static void leave_out_outcomes(const struct table *t, uint32_t label)
{
	for (uint32_t i = 0; i < t->count; i++) {
		struct column_guess *g = &t->guesses[i];
		const bool two = has_two_values(&t->profiles[i]) && has_two_values(&t->profiles[label]);
		const bool copies = i != label && two && t->profiles[i].pattern == t->profiles[label].pattern;
		if (copies || (i != label && two && column_name_is_outcome(t->names[i]))) {
			*g = (struct column_guess){.kind = COLUMN_IGNORE, .share = -1};
			WHY(g,
			    copies ? "tells the label '%.60s': each value goes with one of its values"
			           : "perhaps a result of the same event as '%.60s', unknown when a row is scored",
			    t->names[label]);
		}
	}
}

/* --- Times */

static bool is_within(const struct column_profile *p, double unit)
{
	return p->real == 0 && all_numbers(p) && p->low >= TIME_LOW * unit && p->high < TIME_HIGH * unit;
}

static bool guess_time(const char *name, const struct column_profile *p, struct column_guess *g)
{
	const uint64_t given = column_profile_given(p);
	const bool dates = p->dates == given, seconds = is_within(p, 1), milliseconds = is_within(p, 1000);
	const bool rises = p->rising * 100 >= given * 99 && distinct(p) > 100;
	if (!dates && !((seconds || milliseconds) && (column_name_is_time(name) || rises)))
		return false;
	g->kind = COLUMN_TIME;
	g->time = dates ? TIME_ISO8601 : seconds ? TIME_UNIX : TIME_UNIX_MS;
	return true;
}

/* --- Lists of ids */

static void take_list(const char *name, const struct list_profile *l, struct column_guess *g)
{
	g->kind = column_name_is_history(name) ? COLUMN_SEQUENCE : COLUMN_MULTI;
	g->separator = l->separator;
	WHY(g, "lists of up to %u, %.0f different", l->longest_list, hyperloglog_count(&l->distinct));
}

static bool guess_list(const char *name, const struct column_profile *p, struct column_guess *g)
{
	const struct list_profile *l = &p->list;
	const double ids = (double)l->ids, different = hyperloglog_count(&l->distinct);
	if (l->separator == 0 || (double)l->cells < LIST_SHARE * (double)column_profile_given(p))
		return false;
	/* ids come again, are short and have no spaces around; words of a sentence have no digits */
	if (different > 0.6 * ids || l->longest_id > LIST_ID_BYTES || l->spaced > 0)
		return false;
	if (l->separator == ' ' && (double)l->digits < 0.8 * ids)
		return false;
	take_list(name, l, g);
	return true;
}

/* The share of a list's ids that a column has, too. */
static double overlap(const struct column_profile *list, const struct column_profile *column)
{
	struct hyperloglog both = list->list.distinct;
	const double a = hyperloglog_count(&list->list.distinct), b = distinct(column);
	hyperloglog_merge(&both, &column->distinct);
	const double shared = a + b - hyperloglog_count(&both), fewer = a < b ? a : b;
	return fewer < SHARED_IDS_MIN ? 0 : shared / fewer;
}

/* Finds the column whose ids a list has. Numbers of two things overlap, too: then the names must
 * meet. */
static void share_ids(const struct table *t, uint32_t list)
{
	struct column_guess *g = &t->guesses[list];
	double most = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		const struct column_profile *p = &t->profiles[i];
		const bool texts = p->whole + p->real == 0 || column_names_meet(t->names[list], t->names[i]);
		const bool wanted =
		    t->guesses[i].kind == COLUMN_CATEGORICAL && (texts || (g->kind == COLUMN_SEQUENCE && column_name_is_id(t->names[i])));
		const double shared =
		    wanted ? overlap(&t->profiles[list], p) + (column_names_meet(t->names[list], t->names[i]) ? 1 : 0) : 0;
		if (shared > SHARED_IDS && shared > most) {
			most = shared;
			g->share = i;
		}
	}
	/* a list of the ids of another column, in most rows of several: a history */
	if (g->share >= 0 && t->profiles[list].list.longest_list > 2)
		g->kind = COLUMN_SEQUENCE;
}

/* --- Numbers */

/* Counts have most rows at their small values, and a long tail. */
static bool is_count(const struct column_profile *p)
{
	const double middle = column_profile_quantile(p, 0.5);
	return p->low >= 0 && p->high > 10 * (middle + 1) && distinct(p) > VALUES_OF_CODE;
}

static void guess_transform(const struct column_profile *p, struct column_guess *g)
{
	g->kind = COLUMN_NUMERIC;
	g->transform = p->low >= 0 && p->high > 10 ? TRANSFORM_LOG1P : TRANSFORM_NONE;
	WHY(g, "%g to %g", p->low, p->high);
}

static void guess_number(const char *name, const struct column_profile *p, struct column_guess *g)
{
	const bool comes_again = distinct(p) < 0.5 * (double)column_profile_given(p) || column_profile_given(p) < ROWS_THAT_TELL;
	if (p->real == 0 && !column_name_is_amount(name) && (column_name_is_id(name) || (comes_again && !is_count(p))))
		g->kind = COLUMN_CATEGORICAL;
	else
		guess_transform(p, g);
	if (g->kind == COLUMN_CATEGORICAL)
		WHY(g, "%.0f different whole numbers, taken for codes", distinct(p));
}

/* --- Any column */

static bool ignore(struct column_guess *g, const char *why)
{
	g->kind = COLUMN_IGNORE;
	WHY(g, "%s", why);
	return true;
}

/* Columns that say nothing. */
static bool guess_useless(const char *name, const struct column_profile *p, struct column_guess *g)
{
	const double given = (double)column_profile_given(p), different = distinct(p);
	if (p->type.is == TYPE_REFUSED)
		return ignore(g, p->type.why);
	if (p->broken > 0)
		return ignore(
		    g, "some values cannot be read: no UTF-8, a zero byte, more than 64 KiB, or quotes that RFC 4180 does not allow");
	if (given == 0)
		return ignore(g, "always empty");
	if (p->values_count == 1 && p->empty == 0)
		return ignore(g, "has one value only");
	if (p->type.is != TYPE_TEXT || !column_name_is_row(name) || given <= 100 || different <= ROW_ID_SHARE * given)
		return false;
	g->kind = COLUMN_ID;
	WHY(g, "another value in each row");
	return true;
}

/* Floats are numbers, whatever they look like. */
static void guess_real(const char *name, const struct column_profile *p, struct column_guess *g)
{
	const uint64_t given = column_profile_given(p), finite = p->whole + p->real;
	if (finite < given) {
		g->kind = COLUMN_IGNORE;
		WHY(g, "%" PRIu64 " values are no finite numbers: write null in their place to use it as kind: numeric", given - finite);
	} else if (p->real == 0 && column_name_is_id(name)) {
		(void)ignore(g, "ids as floats, which lose digits: write them as integers or texts");
	} else {
		guess_transform(p, g);
	}
}

/* Columns whose type leaves no choice. */
static bool guess_by_type(const char *name, const struct column_profile *p, struct column_guess *g)
{
	switch (p->type.is) {
	case TYPE_REAL:
		guess_real(name, p, g);
		return true;
	case TYPE_LIST:
		take_list(name, &p->list, g);
		return true;
	default:
		return false; /* times are dates */
	}
}

static bool is_free_text(const struct column_profile *p)
{
	const double given = (double)column_profile_given(p);
	return p->longest > TEXT_BYTES || ((double)p->spaced > given / 2 && (double)p->bytes > 20 * given && distinct(p) > given / 4);
}

static void guess_column(const char *name, const struct column_profile *p, struct column_guess *g)
{
	*g = (struct column_guess){.kind = COLUMN_CATEGORICAL, .share = -1};
	const uint64_t given = column_profile_given(p), numbers = p->whole + p->real;
	if (guess_useless(name, p, g) || guess_by_type(name, p, g) || guess_time(name, p, g))
		return;
	if (all_numbers(p)) {
		guess_number(name, p, g);
		return;
	}
	if (guess_list(name, p, g))
		return;
	if (is_free_text(p)) {
		ignore(g, "free text");
		return;
	}
	if (numbers * 10 >= given * 9)
		WHY(g, "numbers but for %.1f %%: leave those cells empty to use it as kind: numeric",
		    100 * (double)(given - numbers) / (double)given);
	else
		WHY(g, "%.0f different", distinct(p));
}

/* The first column that names a query or a session groups the rows. */
static void choose_group(const struct table *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		const struct column_profile *p = &t->profiles[i];
		if (p->type.is != TYPE_TEXT || !column_name_is_group(t->names[i]) || distinct(p) > 0.8 * (double)p->rows ||
		    p->values_count < 2)
			continue;
		t->guesses[i] = (struct column_guess){.kind = COLUMN_GROUP, .share = -1};
		WHY(&t->guesses[i], "%.0f groups of %.1f rows", distinct(p), (double)p->rows / distinct(p));
		return;
	}
}

int64_t columns_guess(struct column_guess *out, char *const *names, const struct column_profile *profiles, uint32_t count)
{
	const struct table t = {names, profiles, out, count};
	for (uint32_t i = 0; i < count; i++)
		guess_column(names[i], &profiles[i], &out[i]);
	choose_group(&t);
	const int64_t label = choose_label(&t);
	if (label >= 0)
		leave_out_outcomes(&t, (uint32_t)label);
	for (uint32_t i = 0; i < count; i++)
		if (out[i].kind == COLUMN_MULTI || out[i].kind == COLUMN_SEQUENCE)
			share_ids(&t, i);
	return label;
}
