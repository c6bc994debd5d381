/* weir eval: the quality of a job's weights on a part of its data. */
#include <inttypes.h>
#include <math.h>

#include "cli/core/verbs.h"
#include "cli/observe/quality_lines.h"
#include "cli/observe/report.h"
#include "cli/verbs/scoring.h"
#include "common/web/json.h"
#include "worker/data/quality/quality_json.h"
#include "worker/train/score/sliced.h"

enum { SLICES = 10, SLICES_MAX = 1000 };

static weir_status print_result(const struct scoring_verb *v, const struct scoring *s, struct json *j, weir_error *err)
{
	json_set_text(j, "part", scoring_part_name(s->part));
	json_set_text(j, "weights", s->source);
	accepted_put(&v->accepted, j);
	const weir_status status = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for the result");
	json_destroy(j);
	return status;
}

static weir_status print_json(const struct scoring_verb *v, const struct scoring *s, enum report_of of, const struct quality *q,
                              weir_error *err)
{
	struct json *j = json_create();
	if (j && of == REPORT_CLICKS) {
		quality_put(j, q);
	} else if (j) {
		report_put_quality(j, of, q->auc, q->logloss);
		json_set_count(j, "rows", q->rows);
		json_set_count(j, "not_numbers", q->not_numbers);
	}
	return print_result(v, s, j, err);
}

static void print_text(const struct scoring *s, enum report_of of, const struct quality *q)
{
	const char *part = scoring_part_name(s->part);
	if (of == REPORT_TOKENS) {
		printf("%s: loss %.4f nats a token, perplexity %.4f (%" PRIu64 " tokens, weights of %s)\n", part, q->logloss,
		       exp(q->logloss), q->rows, s->source);
	} else if (of == REPORT_TEXT) {
		printf("%s: loss %.4f nats a byte, %.4f bits a byte (%" PRIu64 " bytes, weights of %s)\n", part, q->logloss,
		       report_bits(q->logloss), q->rows, s->source);
	} else {
		printf("%s: ", part);
		quality_print_main(stdout, ", ", q);
		printf(" (%" PRIu64 " rows, weights of %s)\n", q->rows, s->source);
		quality_print_more(stdout, "  ", q);
		quality_print_buckets(stdout, "  ", q);
	}
}

/* --- Slices */

static weir_status print_sliced_json(const struct scoring_verb *v, const struct scoring *s, const struct sliced *sliced,
                                     weir_error *err)
{
	struct json *j = json_create();
	if (j)
		quality_put(j, &sliced->all);
	json_set_count(j, "left_out", sliced->left_out);
	json_set_text(j, "by", v->by);
	json_set_count(j, "values", sliced->values);
	json_set_empty_list(j, "slices");
	for (uint32_t i = 0; i < sliced->count && j; i++) {
		struct json *slice = json_create();
		if (sliced->slices[i].value)
			json_set_text(slice, "value", sliced->slices[i].value);
		else
			json_set_null(slice, "value");
		if (slice)
			quality_put(slice, &sliced->slices[i].quality);
		json_append(j, "slices", slice);
	}
	return print_result(v, s, j, err);
}

static void print_sliced_text(const struct scoring_verb *v, const struct scoring *s, const struct sliced *sliced)
{
	print_text(s, REPORT_CLICKS, &sliced->all);
	printf("by %s, %" PRIu64 " value%s:\n", v->by, sliced->values, sliced->values == 1 ? "" : "s");
	quality_print_heading(stdout, "  ", sliced->all.grouped ? &sliced->all.ranking : NULL);
	for (uint32_t i = 0; i < sliced->count; i++) {
		const struct slice *slice = &sliced->slices[i];
		quality_print_row(stdout, "  ",
		                  !slice->value   ? "(the rest)"
		                  : *slice->value ? slice->value
		                                  : "(empty)",
		                  &slice->quality, sliced->all.grouped);
	}
	if (sliced->left_out > 0)
		printf("  left out: %" PRIu64 " lines that are no row or have no label\n", sliced->left_out);
}

static weir_status evaluate_by(const struct scoring_verb *v, weir_error *err)
{
	struct scoring s = {0};
	struct sliced sliced = {0};
	struct scoring_options options = v->scoring;
	if (model_kind_has(options.job->model.kind, PART_RETRIEVAL))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "--by is for models of clicks, and model.kind is %s",
		                 model_kind_name(options.job->model.kind));
	options.every_line = true; /* so that rows are those of the lines, in their order */
	weir_status status = scoring_open(&s, &options, err);
	if (status == WEIR_OK)
		status = scorer_evaluate_by(s.scorer, s.data, options.job, v->by, (uint32_t)v->top, &sliced, err);
	if (status == WEIR_OK && sliced.all.rows == 0)
		status = weir_fail(err, WEIR_E_INVALID, "no row of the %s part has a label", scoring_part_name(s.part));
	if (status == WEIR_OK && v->as_json)
		status = print_sliced_json(v, &s, &sliced, err);
	else if (status == WEIR_OK)
		print_sliced_text(v, &s, &sliced);
	if (status == WEIR_OK && sliced.all.not_numbers > 0)
		status = scoring_fail_not_numbers(&s, sliced.all.not_numbers, sliced.all.rows, err);
	sliced_destroy(&sliced);
	scoring_close(&s);
	return status;
}

/* --- The verb */

static weir_status evaluate(const struct scoring_verb *v, weir_error *err)
{
	struct scoring s = {0};
	struct quality q = {0};
	const enum report_of of = report_reads(v->scoring.job);
	if (v->by)
		return evaluate_by(v, err);
	weir_status status = scoring_open(&s, &v->scoring, err);
	if (status == WEIR_OK)
		status = scorer_evaluate(s.scorer, s.data, &q, err);
	if (status == WEIR_OK && v->as_json)
		status = print_json(v, &s, of, &q, err);
	else if (status == WEIR_OK)
		print_text(&s, of, &q);
	if (status == WEIR_OK && q.not_numbers > 0)
		status = scoring_fail_not_numbers(&s, q.not_numbers, q.rows, err);
	scoring_close(&s);
	return status;
}

static weir_status check_slices(const struct scoring_verb *v, weir_error *err)
{
	if (v->top == 0 || v->top > SLICES_MAX)
		return weir_fail(err, WEIR_E_INVALID, "--top is %" PRIu64 "; expected a number from 1 to %d", v->top, SLICES_MAX);
	return WEIR_OK;
}

int verb_eval(int count, char **args)
{
	struct scoring_verb v = {.name = "eval", .run = evaluate, .check = check_slices, .top = SLICES};
	const struct option options[] = {
	    JOB_OPTIONS(&v.job),
	    SCORING_OPTIONS(&v.scoring),
	    ACCEPT_OPTION(v.accepted),
	    {"--by", OPTION_TEXT, &v.by, "COLUMN", "of data.columns: the same for the rows with each of its values"},
	    {"--top", OPTION_COUNT, &v.top, "N", "how many values, those with the most rows (10)"},
	    {"--json", OPTION_FLAG, &v.as_json, NULL, "as JSON"}};
	return scoring_verb_main(&v, options, sizeof options / sizeof *options, count, args);
}
