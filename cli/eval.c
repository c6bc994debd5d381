/* weir eval: how good the weights of a job are on a part of its data. */
#include <inttypes.h>
#include <stdlib.h>

#include "json.h"
#include "options.h"
#include "scoring.h"
#include "verbs.h"

static weir_status print_json(const struct scoring *s, const struct quality *q, weir_error *err)
{
	struct json *j = json_create();
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the result");
	json_set_text(j, "part", scoring_part_name(s->part));
	json_set_text(j, "weights", s->source);
	json_set_real(j, "auc", q->auc);
	json_set_real(j, "logloss", q->logloss);
	json_set_real(j, "calibration", q->calibration);
	json_set_count(j, "rows", q->rows);
	weir_status status = json_print(j, stdout, err);
	json_destroy(j);
	return status;
}

static weir_status evaluate(const struct scoring_options *o, bool as_json, weir_error *err)
{
	struct scoring s = {0};
	struct quality q = {0};
	weir_status status = scoring_open(&s, o, err);
	if (status == WEIR_OK)
		status = scorer_evaluate(s.scorer, s.data, &q, err);
	if (status == WEIR_OK && as_json)
		status = print_json(&s, &q, err);
	else if (status == WEIR_OK)
		printf("%s: AUC %.4f, logloss %.4f, calibration %.3f (%" PRIu64 " rows, weights of %s)\n", scoring_part_name(s.part),
		       q.auc, q.logloss, q.calibration, q.rows, s.source);
	scoring_close(&s);
	return status;
}

int verb_eval(int count, char **args)
{
	struct job_options jo = {0};
	struct scoring_options so = {0};
	struct job *job = NULL;
	bool as_json = false;
	weir_error err = {0};
	const char *word = NULL;
	const struct option options[] = {JOB_OPTIONS(&jo), SCORING_OPTIONS(&so), {"--json", OPTION_FLAG, &as_json}};
	weir_status s = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	jo.path = word ? word : jo.path;
	if (s == WEIR_OK)
		s = job_options_logger(&jo, "weir", LOG_WARN, &so.logger, &err);
	if (s != WEIR_OK)
		return verb_usage("eval", &err);
	s = job_options_load(&jo, &job, &err);
	so.job = job;
	if (s == WEIR_OK)
		s = evaluate(&so, as_json, &err);
	job_free(job);
	logger_destroy(so.logger);
	return s == WEIR_OK ? EXIT_SUCCESS : verb_fail("eval", &err);
}
