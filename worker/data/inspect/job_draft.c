#include "worker/data/inspect/job_draft.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/utf8_columns.h"

#define NAME_COLUMNS    28 /* of the table; longer names move the rest to the right */
#define RANGE_BYTES     64u
#define EXAMPLE_COLUMNS 24
#define FEW_ROWS        200000.0
#define WORD_BYTES      (4 * WEIR_COLUMN_NAME_BYTES_MAX)

/* --- Words of YAML */

/* Writes a text as YAML: plain if it is one word that begins with a letter, else in quotes. */
static void yaml_word(const char *text, char out[WORD_BYTES])
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/";
	static const char *const taken[] = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"};
	bool quoted = !isalpha((unsigned char)*text) || text[strspn(text, plain)] != 0;
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		quoted |= strcasecmp(text, taken[i]) == 0;
	size_t n = 0;
	if (quoted)
		out[n++] = '"';
	for (; *text && n + 6 < WORD_BYTES; text++) {
		if (iscntrl((unsigned char)*text)) {
			n += (size_t)snprintf(out + n, WORD_BYTES - n, "\\x%02x", (unsigned char)*text);
			continue;
		}
		if (quoted && (*text == '"' || *text == '\\'))
			out[n++] = '\\';
		if (*text == '$') /* the job file takes values from the environment */
			out[n++] = '$';
		out[n++] = *text;
	}
	if (quoted)
		out[n++] = '"';
	out[n] = 0;
}

/* --- The table */

const char *column_values_name(const struct column_profile *p)
{
	const uint64_t given = column_profile_given(p), numbers = p->whole + p->real;
	if (p->type.is == TYPE_REFUSED)
		return "not read";
	if (given == 0)
		return "none";
	if (p->lists > 0)
		return p->lists == given ? "lists" : "lists, text";
	if (numbers == given)
		return p->real > 0 ? "numbers" : "whole numbers";
	if (p->dates == given)
		return p->type.is == TYPE_TIME ? "times" : "dates";
	return numbers > 0 ? "text, numbers" : "text";
}

/* Writes a time of a column, without its fraction of a second, as split.valid_from takes it. */
static void time_text(double ms, enum column_time form, char out[RANGE_BYTES])
{
	if (form == TIME_ISO8601)
		(void)column_profile_time_text((int64_t)floor(ms / 1000) * 1000, out);
	else
		snprintf(out, RANGE_BYTES, "%.0f", form == TIME_UNIX ? ms / 1000 : ms);
}

void column_range_text(const struct column_profile *p, char *out, size_t bytes)
{
	char low[RANGE_BYTES], high[RANGE_BYTES];
	*out = 0;
	if (p->dates > 0 && p->dates == column_profile_given(p)) {
		time_text(p->low, TIME_ISO8601, low);
		time_text(p->high, TIME_ISO8601, high);
		snprintf(out, bytes, "%.10s to %.10s", low, high);
	} else if (p->whole + p->real > 0 && p->whole + p->real == column_profile_given(p)) {
		snprintf(out, bytes, "%.15g to %.15g", p->low, p->high);
	}
}

/* Writes text cut to a number of columns on a terminal, without control characters. */
static void write_cut(FILE *out, const char *text, size_t columns)
{
	for (size_t shown = 0; *text && shown < columns; shown++) {
		do /* the bytes of one character */
			fputc(iscntrl((unsigned char)*text) ? '?' : *text, out);
		while ((*++text & 0xc0) == 0x80);
	}
	if (*text)
		fputs("...", out);
}

static void write_padded(FILE *out, const char *text, int columns)
{
	const int used = (int)utf8_columns(text);
	fprintf(out, "%s%*s", text, used < columns ? columns - used : 0, "");
}

static void write_examples(FILE *out, const struct column_profile *p)
{
	for (uint32_t i = 0; i < p->values_count && i < 3; i++) {
		fputs(i > 0 ? ", " : "", out);
		write_cut(out, p->values[i].text, EXAMPLE_COLUMNS);
	}
}

static void write_profile(FILE *out, const char *name, const struct column_profile *p)
{
	char range[2 * RANGE_BYTES], shown[WORD_BYTES];
	yaml_word(name, shown);
	column_range_text(p, range, sizeof range);
	fputs("#   ", out);
	write_padded(out, shown, NAME_COLUMNS);
	if (p->type.is == TYPE_REFUSED) {
		fprintf(out, " %s\n", column_values_name(p));
		return;
	}
	fprintf(out, " %-13s %5.1f %% %11.0f  %-24s ", column_values_name(p),
	        p->rows ? 100 * (double)p->empty / (double)p->rows : 0.0, hyperloglog_count(&p->distinct), range);
	write_examples(out, p);
	fputc('\n', out);
}

/* Writes how much was looked at, and what was left out. */
static void write_sample(FILE *out, const struct job_draft *d)
{
	const struct column_sample *s = &d->source->sample;
	const enum table_rows format = d->source->layout->rows;
	const uint64_t rows = d->profiles[0].rows;
	fprintf(out, "# weir inspect looked at %" PRIu64 " row%s: %.1f MB%s from %u file%s of %.1f MB.\n", rows, rows == 1 ? "" : "s",
	        (double)s->bytes / 1e6, format == ROWS_CSV || format == ROWS_JSON ? " of text" : "", s->files,
	        s->files == 1 ? "" : "s", (double)s->bytes_all / 1e6);
	if (s->unread > 0)
		fprintf(out, "# %s, left out: %" PRIu64 ".\n",
		        format == ROWS_CSV ? "Rows with another number of cells than there are columns"
		                           : "Lines that are no object, or have a key twice",
		        s->unread);
	if (s->skipped > 0)
		fprintf(out, "# Places inside the files with quotes, left out: %u.\n", s->skipped);
}

static void write_table(FILE *out, const struct job_draft *d)
{
	write_sample(out, d);
	fprintf(out, "#\n#   %-*s %-13s %7s %11s  %-24s %s\n", NAME_COLUMNS, "column", "values", "empty", "different", "range",
	        "examples");
	for (uint32_t i = 0; i < d->source->layout->columns; i++)
		write_profile(out, d->source->layout->names[i], &d->profiles[i]);
	fputs("#\n# The number of different values is an estimate within 2 %. The kinds below are guesses: read them\n"
	      "# before you train. docs/DATA.md explains them.\n",
	      out);
}

/* --- The job */

/* The name of the job: that of the first file, without its endings. */
static void write_name(FILE *out, const char *pattern)
{
	const char *slash = strrchr(pattern, '/'), *name = slash ? slash + 1 : pattern;
	char job[64] = "";
	size_t n = 0;
	for (; *name && *name != '.' && n + 1 < sizeof job; name++)
		if (isalnum((unsigned char)*name) || *name == '_' || *name == '-')
			job[n++] = *name;
	job[n] = 0;
	fprintf(out, "job: \"%s\"\n", n > 0 ? job : "clicks");
}

static void write_words(FILE *out, const char *const *words, uint32_t count)
{
	char word[WORD_BYTES];
	fputc('[', out);
	for (uint32_t i = 0; i < count; i++) {
		yaml_word(words[i], word);
		fprintf(out, "%s%s", i > 0 ? ", " : "", word);
	}
	fputc(']', out);
}

static void write_csv(FILE *out, const struct job_draft *d)
{
	const struct table_layout *l = d->source->layout;
	char delimiter[WORD_BYTES];
	if (l->rows != ROWS_CSV || (l->marks.delimiter == ',' && l->header && !d->source->renamed))
		return;
	yaml_word((const char[]){l->marks.delimiter, 0}, delimiter);
	fprintf(out, "  csv: {delimiter: %s, header: %s", delimiter, l->header ? "true" : "false");
	if (d->source->renamed) {
		fputs(", names: ", out);
		write_words(out, (const char *const *)l->names, l->columns);
	}
	fputs("}\n", out);
}

/* Writes the split, and one by time as a comment if a column has times. */
static void write_split(FILE *out, const struct job_draft *d)
{
	char valid[RANGE_BYTES], test[RANGE_BYTES], name[WORD_BYTES];
	fputs("  split: {by: crc32, train: 80, valid: 10, test: 10}\n", out);
	for (uint32_t i = 0; i < d->source->layout->columns; i++) {
		const struct column_profile *p = &d->profiles[i];
		const enum column_time form = d->guesses[i].time;
		const double unit = form == TIME_UNIX ? 1000 : 1;
		if (d->guesses[i].kind != COLUMN_TIME || column_profile_quantile(p, 0.9) <= column_profile_quantile(p, 0.8))
			continue;
		time_text(column_profile_quantile(p, 0.8) * unit, form, valid);
		time_text(column_profile_quantile(p, 0.9) * unit, form, test);
		yaml_word(d->source->layout->names[i], name);
		fprintf(out, "  # by time, as a model is used:\n  # split: {by: time, column: %s, valid_from: '%s', test_from: '%s'}\n",
		        name, valid, test);
		return;
	}
}

static const char *const time_names[] = {[TIME_UNIX] = "unix", [TIME_UNIX_MS] = "unix_ms", [TIME_ISO8601] = "iso8601"};

/* Writes the keys of a column after its kind. */
static void write_keys(FILE *out, const struct job_draft *d, const struct column_guess *g)
{
	char word[WORD_BYTES];
	if (g->kind == COLUMN_MULTI || g->kind == COLUMN_SEQUENCE) {
		yaml_word((const char[]){g->separator, 0}, word);
		if (g->separator)
			fprintf(out, ", separator: %s", word);
		fputs(", pooling: mean", out);
	}
	if (g->share >= 0) {
		yaml_word(d->source->layout->names[g->share], word);
		fprintf(out, ", share: %s", word);
	}
	if (g->kind == COLUMN_NUMERIC && g->transform == TRANSFORM_LOG1P)
		fputs(", transform: log1p", out);
	if (g->kind == COLUMN_TIME)
		fprintf(out, ", format: %s", time_names[g->time]);
	if (g->has_above)
		fprintf(out, ", positive_above: %g", g->above);
	if (g->positive[0]) {
		yaml_word(g->positive, word);
		fprintf(out, ", positive: %s", word);
	}
}

static void write_column(FILE *out, const struct job_draft *d, uint32_t i)
{
	const struct column_guess *g = &d->guesses[i];
	char name[WORD_BYTES];
	yaml_word(d->source->layout->names[i], name);
	fprintf(out, "    - {name: %s, kind: %s", name, column_kind_name(g->kind));
	write_keys(out, d, g);
	fputc('}', out);
	if (g->why[0]) {
		fputs("  # ", out);
		write_cut(out, g->why, GUESS_WHY_BYTES);
	}
	fputc('\n', out);
}

/* Whether the files have so few rows that one pass of large batches takes too few steps. */
static bool are_few(const struct job_draft *d)
{
	const struct column_sample *s = &d->source->sample;
	const double more = s->bytes_all > s->bytes ? (double)s->bytes_all / (double)s->bytes : 1;
	return (double)d->profiles[0].rows * more < FEW_ROWS;
}

void job_draft_write(FILE *out, const struct job_draft *d)
{
	write_table(out, d);
	write_name(out, d->patterns[0]);
	fprintf(out, "data:\n  format: %s\n  train: ", table_rows_name(d->source->layout->rows));
	write_words(out, d->patterns, d->patterns_count);
	fputc('\n', out);
	write_csv(out, d);
	write_split(out, d);
	if (are_few(d))
		fputs("  batch: 128  # few rows: small batches, and passes until the validation part gets worse\n", out);
	fputs("  columns:\n", out);
	if (d->label < 0)
		fputs("    # No column looks like a label: give the one to be predicted kind: label.\n", out);
	for (uint32_t i = 0; i < d->source->layout->columns; i++)
		write_column(out, d, i);
	fputs("model: {kind: deepfm}\n", out);
	if (are_few(d))
		fputs("train: {passes: 5, early_stop: {patience: 2}}\n", out);
}
