#include "cli/run/choice.h"

#include <math.h>
#include <stdbool.h>

/* The classes of the first task that have weight in a part, the negative class first. */
struct classes {
	bool any[2];
};

static bool are_both(const struct classes *c)
{
	return c->any[0] && c->any[1];
}

static void note_rows(struct classes *c, const struct batch *b)
{
	for (uint32_t r = 0; r < b->rows; r++) {
		const float label = b->labels[(size_t)r * b->tasks];
		if (!isnan(label))
			c->any[label > 0.5f] |= !b->weights || b->weights[r] > 0;
	}
}

static weir_status read_unit(struct dataset *d, uint32_t unit, struct classes *c, weir_error *err)
{
	struct unit_reader *reader = NULL;
	struct batch batch = {0};
	weir_status status = unit_open(&reader, d, unit, 0, err);
	const uint32_t batches = status == WEIR_OK ? unit_batches(reader) : 0;
	for (uint32_t i = 0; i < batches && status == WEIR_OK && !are_both(c); i++) {
		status = unit_read(reader, i, &batch, err);
		if (status == WEIR_OK)
			note_rows(c, &batch);
	}
	batch_destroy(&batch);
	if (reader)
		unit_close(reader);
	return status;
}

static weir_status find_classes(struct dataset *d, struct classes *out, weir_error *err)
{
	const uint32_t units = dataset_get_info(d)->units;
	weir_status status = WEIR_OK;
	*out = (struct classes){0};
	for (uint32_t u = 0; u < units && status == WEIR_OK && !are_both(out); u++)
		status = read_unit(d, u, out, err);
	return status;
}

static void note_last(struct progress_line *progress, const struct job *job, const char *why)
{
	progress_line_note(progress, "%s: the weights of the last pass are kept, in %s/best.safetensors", why, job->run_dir);
}

weir_status choice_note(struct progress_line *progress, const struct job *job, struct dataset *valid, weir_error *err)
{
	const bool chooses = job->train.keep_best || job->train.early_stop.patience > 0;
	struct classes classes;
	if (!valid) {
		note_last(progress, job, "no validation part chooses the best pass (data.valid or data.split gives one)");
		return WEIR_OK;
	}
	if (dataset_get_info(valid)->units == 0)
		note_last(progress, job, "the validation part has no row, so that no pass can be chosen");
	if (job_is_language(job) || dataset_get_info(valid)->units == 0)
		return WEIR_OK;
	const weir_status status = find_classes(valid, &classes, err);
	if (status != WEIR_OK || are_both(&classes))
		return status;
	if (!classes.any[0] && !classes.any[1])
		note_last(progress, job, "no row of the validation part has weight, so that no pass can be chosen");
	else
		progress_line_note(progress, "all rows of the validation part are %s, so that its AUC is undefined%s",
		                   classes.any[1] ? "positive" : "negative",
		                   chooses && job_best_by(job) == METRIC_AUC ? ": the best pass is chosen by its logloss" : "");
	return status;
}
