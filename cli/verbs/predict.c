/* weir predict: writes the probability of a click for each line of a part, one per line, in the
 * order of the files: nan for a bad line, an empty line for a blank line or a comment. Labels are
 * not needed. With columns that name rows it writes CSV, their ids before the score, and nothing
 * for a blank line. Into a file NAME.parquet, writes a table instead, with a null score for a line
 * that has none.
 *
 * For text, writes the natural logarithm of the probability of each byte that has a context; for
 * tokens, of all targets of a sequence that count. A NaN or infinite score is written as nan or
 * inf, and makes the verb fail after the file is written. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/verbs.h"
#include "cli/verbs/row_ids.h"
#include "cli/verbs/scoring.h"
#include "common/system/output.h"
#include "worker/data/format/table_file.h"

struct rows {
	FILE *file;
	const char *path;
	struct dataset_lines *lines;  /* --lines; else NULL */
	struct row_ids ids;           /* without ids: only scores */
	bool parquet;                 /* a table: with a header, and a row for each line */
	uint64_t scores, bad, blanks; /* counts of written lines */
	uint64_t not_numbers;         /* NaN or infinite scores */
};

/* Writes the file and line of the next row. */
static weir_status write_place(struct rows *o, weir_error *err)
{
	const char *file;
	uint64_t line;
	const weir_status status = dataset_lines_next(o->lines, &file, &line, err);
	if (status == WEIR_OK)
		fprintf(o->file, "%s:%" PRIu64 "\t", file, line);
	return status == WEIR_E_NOT_FOUND ? weir_fail(err, WEIR_E_CORRUPT, "the data have fewer lines than a moment ago") : status;
}

static void write_score(struct rows *o, float label, double score)
{
	if (label == LABEL_BAD || isnan(score)) /* printf would show the sign */
		fputs("nan", o->file);
	else
		fprintf(o->file, "%.9g", score);
}

/* Counts a row of `scores` scores, of which not_numbers are NaN or infinite. */
static void count_row(struct rows *o, float label, uint32_t not_numbers)
{
	const bool bad = label == LABEL_BAD, blank = label == LABEL_BLANK;
	o->bad += bad;
	o->blanks += blank;
	o->scores += !bad && !blank;
	o->not_numbers += !bad && !blank && not_numbers > 0;
}

/* Writes a line: its place or ids, and its scores, (tasks, each), each task's summed. */
static weir_status write_row(struct rows *o, float label, const float *scores, uint32_t tasks, uint32_t each, weir_error *err)
{
	const bool blank = label == LABEL_BLANK;
	uint32_t not_numbers = 0;
	weir_status status = WEIR_OK;
	if (o->lines)
		status = write_place(o, err);
	else if (o->ids.count > 0)
		status = row_ids_write_next(&o->ids, blank, o->file, err);
	for (uint32_t t = 0; t < tasks && status == WEIR_OK; t++) {
		double sum = 0;
		for (uint32_t i = 0; i < each; i++)
			sum += (double)scores[(size_t)t * each + i];
		not_numbers += !isfinite(sum);
		fputs(t > 0 && (!blank || o->parquet) ? "," : "", o->file);
		if (!blank)
			write_score(o, label, sum);
	}
	if (!blank || o->ids.count == 0)
		fputc('\n', o->file);
	count_row(o, label, not_numbers);
	return status;
}

static weir_status write_rows(void *arg, const struct batch *batch, const float *scores, weir_error *err)
{
	struct rows *o = arg;
	const uint32_t each = batch->sequence > 0 ? batch->sequence : 1, tasks = batch->tasks > 1 ? batch->tasks : 1;
	weir_status status = WEIR_OK;
	for (uint32_t r = 0; r < batch->rows && status == WEIR_OK; r++) {
		const float label = batch->labels ? batch->labels[(size_t)r * tasks] : 0;
		status = write_row(o, label, scores + (size_t)r * tasks * each, tasks, each, err);
	}
	if (status != WEIR_OK)
		return status;
	return ferror(o->file) ? weir_fail(err, WEIR_E_IO, "cannot write %s: %s", output_label(o->path), strerror(errno)) : WEIR_OK;
}

static weir_status check_scores(const struct scoring *s, const struct rows *o, weir_error *err)
{
	if (o->scores > 0 || o->bad == 0)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "no line of the %s part can be scored: %" PRIu64 " %s bad; is data.format right?",
	                 scoring_part_name(s->part), o->bad, o->bad == 1 ? "is" : "are");
}

static void print_result(const struct scoring *s, const struct rows *o)
{
	FILE *words = output_words(o->path);
	fprintf(words, "%s: %" PRIu64 " score%s of the %s part, weights of %s", output_label(o->path), o->scores,
	        o->scores == 1 ? "" : "s", scoring_part_name(s->part), s->source);
	if (o->bad > 0)
		fprintf(words, "; %" PRIu64 " bad line%s: nan", o->bad, o->bad == 1 ? "" : "s");
	if (o->blanks > 0)
		fprintf(words, "; %" PRIu64 " line%s without a row: empty", o->blanks, o->blanks == 1 ? "" : "s");
	fputc('\n', words);
}

/* Opens what stands before the scores. */
static weir_status open_names(struct rows *o, const struct scoring_verb *v, const struct dataset *data, weir_error *err)
{
	return v->with_lines ? dataset_lines_open(&o->lines, data, err) : row_ids_open(&o->ids, v->scoring.job, &v->ids, data, err);
}

/* Ends the file of rows; `path` is its name. */
static weir_status close_rows(struct rows *o, const char *path, weir_status status, weir_error *err)
{
	if (o->file && fclose(o->file) != 0 && status == WEIR_OK)
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", output_label(o->path), strerror(errno));
	return status == WEIR_OK && o->parquet ? table_file_from_csv(path, o->ids.count, TABLE_FLOAT64, err) : status;
}

/* Writes under a temporary name, so that the file is complete or absent. */
static weir_status predict(const struct scoring_verb *v, weir_error *err)
{
	char temporary[WEIR_PATH_BYTES_MAX];
	struct scoring s = {0};
	struct output out;
	struct rows o = {.path = v->out, .parquet = table_file_is_parquet(v->out)};
	weir_status status = output_begin(&out, v->out, err);
	if (status != WEIR_OK)
		return status;
	snprintf(temporary, sizeof temporary, "%.4000s.%d.tmp", out.path, (int)getpid());
	status = scoring_open(&s, &v->scoring, err);
	if (status == WEIR_OK)
		status = open_names(&o, v, s.data, err);
	if (status == WEIR_OK && !(o.file = fopen(temporary, "w")))
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", output_label(v->out), strerror(errno));
	if (status == WEIR_OK && (o.ids.count > 0 || o.parquet))
		row_ids_write_header(&o.ids, v->scoring.job, o.file);
	if (status == WEIR_OK)
		status = scorer_run(s.scorer, s.data, write_rows, &o, err);
	if (status == WEIR_OK)
		status = check_scores(&s, &o, err);
	status = close_rows(&o, temporary, status, err);
	if (status == WEIR_OK && rename(temporary, out.path) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot rename %s to %s: %s", temporary, v->out, strerror(errno));
	const bool renamed = status == WEIR_OK;
	status = output_end(&out, status, err);
	if (status == WEIR_OK)
		print_result(&s, &o);
	if (!renamed && o.file)
		unlink(temporary);
	dataset_lines_close(o.lines);
	row_ids_close(&o.ids);
	if (status == WEIR_OK && o.not_numbers > 0) /* the other scores are useful */
		status = scoring_fail_not_numbers(&s, o.not_numbers, o.scores, err);
	scoring_close(&s);
	return status;
}

static weir_status check_names(const struct scoring_verb *v, weir_error *err)
{
	if (v->with_lines && v->ids.count > 0)
		return weir_fail(err, WEIR_E_INVALID, "--lines and --ids both say what stands before a score: leave out one of them");
	if (v->with_lines && table_file_is_parquet(v->out))
		return weir_fail(err, WEIR_E_INVALID, "--lines writes text, and %s is to be Parquet: name columns with --ids", v->out);
	return table_file_can_write(v->out, err);
}

int verb_predict(int count, char **args)
{
	struct scoring_verb v = {
	    .name = "predict", .run = predict, .check = check_names, .needs_out = true, .scoring.every_line = true};
	const struct option options[] = {
	    JOB_OPTIONS(&v.job),
	    SCORING_OPTIONS(&v.scoring),
	    ACCEPT_OPTION(v.accepted),
	    {"--out", OPTION_TEXT, &v.out, "FILE", "the file to write: text, CSV with ids, or NAME.parquet"},
	    {"--ids", OPTION_LIST, &v.ids, "COLUMN",
	     "of data.columns: write CSV, this column before the score; several with commas or again; else those of kind id"},
	    {"--lines", OPTION_FLAG, &v.with_lines, NULL, "FILE:LINE and a tab before each score"},
	    {"--unlabelled", OPTION_FLAG, &v.scoring.unlabelled, NULL,
	     "libsvm, libffm: lines begin with their entries; needed only where all begin with 0: or 1:"}};
	return scoring_verb_main(&v, options, sizeof options / sizeof *options, count, args);
}
