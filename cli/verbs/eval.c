/* weir eval: the quality of a job's weights on a part of its data. */
#include <inttypes.h>
#include <math.h>

#include "cli/core/verbs.h"
#include "cli/observe/quality_lines.h"
#include "cli/observe/report.h"
#include "cli/verbs/scoring.h"
#include "common/web/json.h"
#include "worker/data/quality/quality_json.h"

static weir_status print_json(const struct scoring_verb *v, const struct scoring *s, enum report_of of, const struct quality *q,
                              weir_error *err)
{
	struct json *j = json_create();
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the result");
	json_set_text(j, "part", scoring_part_name(s->part));
	json_set_text(j, "weights", s->source);
	if (of == REPORT_CLICKS) {
		quality_put(j, q);
	} else {
		report_put_quality(j, of, q->auc, q->logloss);
		json_set_count(j, "rows", q->rows);
		json_set_count(j, "not_numbers", q->not_numbers);
	}
	accepted_put(&v->accepted, j);
	weir_status status = json_print(j, stdout, err);
	json_destroy(j);
	return status;
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
		printf("%s: AUC %.4f, logloss %.4f, calibration %.3f (%" PRIu64 " rows, weights of %s)\n", part, q->auc, q->logloss,
		       q->calibration, q->rows, s->source);
		quality_print_more(stdout, "  ", q);
		quality_print_buckets(stdout, "  ", q);
	}
}

static weir_status evaluate(const struct scoring_verb *v, weir_error *err)
{
	struct scoring s = {0};
	struct quality q = {0};
	const enum report_of of = report_reads(v->scoring.job);
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

int verb_eval(int count, char **args)
{
	struct scoring_verb v = {.name = "eval", .run = evaluate};
	const struct option options[] = {JOB_OPTIONS(&v.job),
	                                 SCORING_OPTIONS(&v.scoring),
	                                 ACCEPT_OPTION(v.accepted),
	                                 {"--json", OPTION_FLAG, &v.as_json, NULL, "as JSON"}};
	return scoring_verb_main(&v, options, sizeof options / sizeof *options, count, args);
}
