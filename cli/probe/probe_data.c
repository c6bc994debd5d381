/* Batches of the job's own data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/probe/probe_internal.h"
#include "common/system/temp_folder.h"
#include "worker/data/column_facts.h"
#include "worker/data/columns/generate_clicks.h"
#include "worker/data/dataset.h"

/* Rows of the sample of data that are yet to be generated. */
#define SAMPLE_ROWS(job) ((uint64_t)(job)->data.batch * 4u * PROBE_BATCHES)

/* The share of a part among the rows that a split cuts. */
static double share_of(const struct job *job, double part)
{
	const double all = job->data.split.train + job->data.split.valid + job->data.split.test;
	return job->data.split.by == SPLIT_NONE ? 0 : part / all;
}

/* Data that the run would generate: a sample of them in a folder of its own, where it is packed as
 * the run's would be. */
static weir_status generate_sample(struct probe_data *d, weir_error *err)
{
	struct ground_truth truth;
	const weir_status status = temp_folder_make("weir-scratch", d->folder, sizeof d->folder, err);
	if (status != WEIR_OK)
		return status;
	snprintf(d->sample, sizeof d->sample, "%s/sample.tsv", d->folder);
	const struct generate_options options = {
	    .path = d->sample, .rows = SAMPLE_ROWS(d->job), .ids = d->job->data.generate.ids, .seed = d->job->data.generate.seed};
	return generate_criteo(&options, &truth, err);
}

static weir_status open_training(struct probe_data *d, struct logger *logger, weir_error *err)
{
	struct job *job = d->job;
	if (job->data.generate.rows == 0)
		return dataset_open(&d->dataset, job, SPLIT_TRAIN, logger, err);
	weir_status status = generate_sample(d, err);
	if (status != WEIR_OK)
		return status;
	d->files[0] = d->sample;
	job->data.train = d->files;
	job->data.train_count = 1;
	job->data.valid_count = job->data.test_count = 0;
	job->data.split.by = SPLIT_NONE;
	if (strcmp(job->data.cache, "off") != 0)
		snprintf(job->data.cache, sizeof job->data.cache, "%s", d->folder);
	return dataset_open(&d->dataset, job, SPLIT_TRAIN, logger, err);
}

/* The length of a pass, and of the evaluation that it waits for. */
static weir_status count_batches(const struct probe_data *d, const struct job *job, struct logger *logger,
                                 struct plan_figures *out, weir_error *err)
{
	const double batch = job->data.batch, generated = (double)job->data.generate.rows;
	const double train = (double)dataset_get_info(d->dataset)->rows, cut = share_of(job, job->data.split.train);
	double valid = 0;
	weir_status status = WEIR_OK;
	if (job->data.valid_count > 0) {
		struct dataset *part = NULL;
		status = dataset_open(&part, job, SPLIT_VALID, logger, err);
		valid = status == WEIR_OK ? (double)dataset_get_info(part)->rows : 0;
		dataset_close(part);
	} else if (generated > 0) {
		valid = generated * share_of(job, job->data.split.valid);
	} else if (cut > 0) {
		valid = train / cut * share_of(job, job->data.split.valid);
	}
	out->batches = (generated > 0 ? generated * (cut > 0 ? cut : 1) : train) / batch;
	out->valid_batches = job_waits_for_evaluation(job) ? valid / batch : 0;
	return status;
}

static weir_status read_batches(struct probe_data *d, struct plan_figures *out, weir_error *err)
{
	const uint32_t units = dataset_get_info(d->dataset)->units;
	const double start = probe_thread_s();
	weir_status status = WEIR_OK;
	for (uint32_t u = 0; u < units && d->count < PROBE_BATCHES && status == WEIR_OK; u++) {
		struct unit_reader *reader = NULL;
		status = unit_open(&reader, d->dataset, u, d->job->data.shuffle ? 1 : 0, err);
		for (uint32_t i = 0; status == WEIR_OK && i < unit_batches(reader) && d->count < PROBE_BATCHES; i++) {
			status = unit_read(reader, i, &d->batches[d->count], err);
			/* a last batch may be short; it says less */
			d->count += status == WEIR_OK && (d->batches[d->count].rows == d->job->data.batch || d->count == 0);
		}
		if (reader)
			unit_close(reader);
	}
	if (status == WEIR_OK && d->count == 0)
		status = weir_fail(err, WEIR_E_INVALID, "the training part has no rows to measure with");
	out->read_s = d->count ? (probe_thread_s() - start) / d->count : 0;
	out->rows = d->count ? d->batches[0].rows : 0;
	return status;
}

weir_status probe_data_open(struct probe_data *d, const struct job *job, struct logger *logger, struct plan_figures *out,
                            weir_error *err)
{
	*d = (struct probe_data){.job = malloc(sizeof *d->job)};
	if (!d->job)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a job");
	memcpy(d->job, job, sizeof *job);
	weir_status status = column_facts_assume(d->job, err);
	if (status == WEIR_OK)
		status = open_training(d, logger, err);
	if (status == WEIR_OK)
		status = count_batches(d, job, logger, out, err);
	return status == WEIR_OK ? read_batches(d, out, err) : status;
}

void probe_data_close(struct probe_data *d)
{
	for (uint32_t i = 0; i < PROBE_BATCHES; i++)
		batch_destroy(&d->batches[i]);
	dataset_close(d->dataset);
	if (d->folder[0])
		scratch_folder_remove(d->folder);
	free(d->job); /* its lists are the original's */
	*d = (struct probe_data){0};
}
