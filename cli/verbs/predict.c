/* weir predict: writes the probability of a click for each line of a part, one per line, in the
 * order of the files: nan for a bad line, an empty line for a blank line or a comment. Labels are
 * not needed.
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
#include "cli/verbs/scoring.h"
#include "common/system/output.h"

struct rows {
	FILE *file;
	const char *path;
	struct dataset_lines *lines;  /* NULL: only scores */
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
	const bool bad = label == LABEL_BAD, blank = label == LABEL_BLANK;
	if (blank)
		fputs("\n", o->file);
	else if (bad || isnan(score)) /* printf would show the sign */
		fputs("nan\n", o->file);
	else
		fprintf(o->file, "%.9g\n", score);
	o->bad += bad;
	o->blanks += blank;
	o->scores += !bad && !blank;
	o->not_numbers += !bad && !blank && !isfinite(score);
}

static weir_status write_rows(void *arg, const struct batch *batch, const float *scores, weir_error *err)
{
	struct rows *o = arg;
	const uint32_t each = batch->sequence > 0 ? batch->sequence : 1;
	weir_status status = WEIR_OK;
	for (uint32_t r = 0; r < batch->rows && status == WEIR_OK; r++) {
		double sum = 0;
		for (uint32_t i = 0; i < each; i++)
			sum += (double)scores[(size_t)r * each + i];
		status = o->lines ? write_place(o, err) : WEIR_OK;
		write_score(o, batch->labels ? batch->labels[(size_t)r * batch->tasks] : 0, sum);
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

/* Writes under a temporary name, so that the file is complete or absent. */
static weir_status predict(const struct scoring_verb *v, weir_error *err)
{
	char temporary[WEIR_PATH_BYTES_MAX];
	struct scoring s = {0};
	struct output out;
	struct rows o = {.path = v->out};
	weir_status status = output_begin(&out, v->out, err);
	if (status != WEIR_OK)
		return status;
	snprintf(temporary, sizeof temporary, "%.4000s.%d.tmp", out.path, (int)getpid());
	status = scoring_open(&s, &v->scoring, err);
	if (status == WEIR_OK && v->with_lines)
		status = dataset_lines_open(&o.lines, s.data, err);
	if (status == WEIR_OK && !(o.file = fopen(temporary, "w")))
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", output_label(v->out), strerror(errno));
	if (status == WEIR_OK)
		status = scorer_run(s.scorer, s.data, write_rows, &o, err);
	if (status == WEIR_OK)
		status = check_scores(&s, &o, err);
	if (o.file && fclose(o.file) != 0 && status == WEIR_OK)
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", output_label(v->out), strerror(errno));
	if (status == WEIR_OK && rename(temporary, out.path) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot rename %s to %s: %s", temporary, v->out, strerror(errno));
	const bool renamed = status == WEIR_OK;
	status = output_end(&out, status, err);
	if (status == WEIR_OK)
		print_result(&s, &o);
	if (!renamed && o.file)
		unlink(temporary);
	dataset_lines_close(o.lines);
	if (status == WEIR_OK && o.not_numbers > 0) /* the other scores are useful */
		status = scoring_fail_not_numbers(&s, o.not_numbers, o.scores, err);
	scoring_close(&s);
	return status;
}

int verb_predict(int count, char **args)
{
	struct scoring_verb v = {.name = "predict", .run = predict, .needs_out = true, .scoring.every_line = true};
	const struct option options[] = {
	    JOB_OPTIONS(&v.job),
	    SCORING_OPTIONS(&v.scoring),
	    ACCEPT_OPTION(v.accepted),
	    {"--out", OPTION_TEXT, &v.out, "SCORES.txt", "the file to write"},
	    {"--lines", OPTION_FLAG, &v.with_lines, NULL, "FILE:LINE and a tab before each score"},
	    {"--unlabelled", OPTION_FLAG, &v.scoring.unlabelled, NULL,
	     "libsvm, libffm: lines begin with their entries; needed only where all begin with 0: or 1:"}};
	return scoring_verb_main(&v, options, sizeof options / sizeof *options, count, args);
}
