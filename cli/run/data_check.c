#include "cli/run/data_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/remote/remote.h"
#include "worker/data/tokens/token_file.h"
#include "worker/train/job/data_shape.h"

#define TASK_BYTES 96u

/* Writes " for 'buy'"; nothing if rows have one label. */
static void name_task(const struct job *job, uint32_t task, uint32_t tasks, char out[TASK_BYTES])
{
	const struct job_column *column = job_column_label(job, task);
	if (tasks > 1 && column)
		snprintf(out, TASK_BYTES, " for '%.60s'", column->name);
	else if (tasks > 1)
		snprintf(out, TASK_BYTES, " for label %u", task + 1);
}

weir_status data_check_labels(const struct job *job, struct dataset *data, char warning[DATA_WARNING_BYTES], weir_error *err)
{
	struct dataset_labels labels;
	const weir_status status = dataset_see_labels(data, &labels, err);
	const uint32_t tasks = dataset_get_info(data)->tasks;
	const uint64_t both = labels.positive & labels.negative;
	char task[TASK_BYTES] = "";
	uint32_t t = 0;
	warning[0] = '\0';
	while (status == WEIR_OK && t < tasks && both >> t & 1)
		t++;
	if (status != WEIR_OK || t == tasks)
		return status;
	name_task(job, t, tasks, task);
	const bool positive = labels.positive >> t & 1;
	if (!positive && !(labels.negative >> t & 1)) {
		snprintf(warning, DATA_WARNING_BYTES, "no row of data.train has a%s weight above 0%s: there is nothing to learn",
		         *task ? " label and a" : "", task);
		return WEIR_OK;
	}
	const char *only = positive ? "positive" : "negative";
	if (labels.bad_lines > 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "data.train: all %" PRIu64 " rows of %s%s are %s%s once %" PRIu64
		                 " bad line%s left out: there is nothing to tell apart",
		                 labels.rows, job->data.train[0], job->data.train_count > 1 ? " and the other files" : "", only, task,
		                 labels.bad_lines, labels.bad_lines == 1 ? " is" : "s are");
	if (labels.rows == 1)
		snprintf(warning, DATA_WARNING_BYTES, "the only row of data.train is %s%s: there is nothing to tell apart", only, task);
	else
		snprintf(warning, DATA_WARNING_BYTES, "all %s%" PRIu64 " rows of data.train are %s%s: there is nothing to tell apart",
		         labels.rows >= DATASET_LABEL_ROWS ? "of the first " : "", labels.rows, only, task);
	return WEIR_OK;
}

static weir_status check_training(const struct job *job, bool with_model, struct logger *logger, struct data_check *out,
                                  weir_error *err)
{
	weir_status status = dataset_open(&out->parts[SPLIT_TRAIN], job, SPLIT_TRAIN, logger, err);
	if (status != WEIR_OK)
		return status;
	struct dataset *data = out->parts[SPLIT_TRAIN];
	const struct dataset_info *info = dataset_get_info(data);
	const struct model_data shape = model_data_of(info);
	out->rows = info->rows;
	out->bad_lines = info->bad_lines;
	/* Retrieval needs no negative rows: the other rows' items are. */
	if (!job_is_language(job) && !model_kind_has(job->model.kind, PART_RETRIEVAL))
		status = data_check_labels(job, data, out->warning, err);
	if (status == WEIR_OK && with_model)
		status = model_check(job, &shape, err);
	return status;
}

/* Checks a part that the evaluator opens. A part that is split off the training part may be
 * empty. */
static weir_status check_part(const struct job *job, enum split_part part, struct logger *logger, struct data_check *out,
                              weir_error *err)
{
	struct dataset_labels labels;
	const bool own_files = (part == SPLIT_VALID ? job->data.valid_count : job->data.test_count) > 0;
	weir_status status = dataset_open(&out->parts[part], job, part, logger, err);
	if (status == WEIR_OK && own_files && !job_is_language(job))
		status = dataset_see_labels(out->parts[part], &labels, err);
	return status;
}

weir_status data_check(const struct job *job, bool with_model, struct logger *logger, struct data_check *out, weir_error *err)
{
	*out = (struct data_check){0};
	weir_status status = check_training(job, with_model, logger, out, err);
	if (status == WEIR_OK && job_has_valid(job))
		status = check_part(job, SPLIT_VALID, logger, out, err);
	if (status == WEIR_OK && job_has_test(job))
		status = check_part(job, SPLIT_TEST, logger, out, err);
	return status;
}

bool data_check_is_plain(const struct job *job, const struct sources *s)
{
	bool plain = true;
	for (uint32_t i = 0; i < s->count; i++)
		plain &= s->items[i].kind == TEXT_PLAIN;
	return plain && (job->data.format != DATA_TOKENS || token_file_begins(s->items[0].path));
}

static bool can_peek(const struct job *job, char *const *patterns, uint32_t count)
{
	struct sources found = {0};
	weir_error ignored = {0};
	bool here = count > 0;
	for (uint32_t i = 0; i < count; i++)
		here &= !remote_is(patterns[i]);
	here = here && sources_find(&found, patterns, count, SOURCES_BY_PATH, NULL, &ignored) == WEIR_OK &&
	       data_check_is_plain(job, &found);
	sources_destroy(&found);
	return here;
}

weir_status data_check_peek(const struct job *job, struct logger *logger, struct data_check *out, weir_error *err)
{
	char *const *const patterns[] = {job->data.train, job->data.valid, job->data.test};
	const uint32_t counts[] = {job->data.train_count, job->data.valid_count, job->data.test_count};
	weir_status status = WEIR_OK;
	*out = (struct data_check){.uncached = malloc(sizeof *job)};
	if (!out->uncached)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a job");
	memcpy(out->uncached, job, sizeof *job);
	snprintf(out->uncached->data.cache, sizeof out->uncached->data.cache, "off");
	for (enum split_part part = SPLIT_TRAIN; part <= SPLIT_TEST && status == WEIR_OK; part++)
		if (can_peek(job, patterns[part], counts[part]))
			status = dataset_open(&out->parts[part], out->uncached, part, logger, err);
	return status;
}

void data_check_close(struct data_check *c)
{
	for (unsigned i = 0; i < sizeof c->parts / sizeof *c->parts; i++)
		dataset_close(c->parts[i]);
	memset(c->parts, 0, sizeof c->parts);
	free(c->uncached);
	c->uncached = NULL;
}
