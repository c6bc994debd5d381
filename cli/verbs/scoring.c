/* Finds the weights, and the data to score. */
#include "cli/verbs/scoring.h"
#include "cli/run/job_servers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/output_inputs.h"
#include "cli/run/import_checkpoint.h"
#include "worker/data/column_facts.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/job/device.h"
#include "worker/train/score/snapshot.h"

const char *scoring_part_name(enum split_part part)
{
	static const char *const names[] = {[SPLIT_TRAIN] = "train", [SPLIT_VALID] = "valid", [SPLIT_TEST] = "test"};
	return names[part];
}

static bool has_part(const struct job *job, enum split_part part)
{
	return part == SPLIT_TRAIN || (part == SPLIT_TEST ? job_has_test(job) : job_has_valid(job));
}

/* Finds a part by name. False: no such part. */
static bool find_part(const char *name, enum split_part *out)
{
	for (enum split_part p = SPLIT_TRAIN; p <= SPLIT_TEST; p++)
		if (strcmp(name, scoring_part_name(p)) == 0) {
			*out = p;
			return true;
		}
	return false;
}

static weir_status check_part(const char *name, weir_error *err)
{
	enum split_part part;
	return !name || find_part(name, &part)
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_INVALID, "--part is '%s': expected train, valid or test", name);
}

static weir_status choose_part(struct scoring *s, const struct scoring_options *o, weir_error *err)
{
	s->part = SPLIT_TEST;
	while (!o->part && !has_part(o->job, s->part))
		s->part--;
	if (o->part)
		(void)find_part(o->part, &s->part); /* check_part has checked it */
	if (!has_part(o->job, s->part))
		return weir_fail(err, WEIR_E_NOT_FOUND, "the job has no %s part: give data.%s or data.split", scoring_part_name(s->part),
		                 scoring_part_name(s->part));
	return WEIR_OK;
}

weir_status scoring_fail_not_numbers(const struct scoring *s, uint64_t count, uint64_t scores, weir_error *err)
{
	return weir_fail(err, WEIR_E_NOT_FINITE,
	                 "%" PRIu64 " of %" PRIu64 " scores of the %s part are not numbers (NaN or infinite): either values of those "
	                 "rows are too large to compute with, or the weights of %.1000s are no numbers",
	                 count, scores, scoring_part_name(s->part), s->source);
}

/* Joins the running job as an observer. The ledger compares the part of the fingerprint that
 * concerns weights. */
static weir_status join(struct scoring *s, const struct scoring_options *o, weir_error *err)
{
	char address[JOB_PLACES_BYTES], name[WEIR_NAME_BYTES_MAX];
	struct job_security security;
	job_security(o->job, ROLE_ADMIN, &security);
	weir_status status = job_servers_find_ledger(o->job, o->at, address, err);
	if (status == WEIR_OK)
		status = job_fingerprint(o->job, &(struct fingerprint_parts){.weights_only = true}, &s->fingerprint, err);
	if (status != WEIR_OK)
		return status;
	snprintf(name, sizeof name, "weir-%d", (int)getpid());
	status = weir_open(&s->client,
	                   &(weir_options){.ledger = address,
	                                   .name = name,
	                                   .role = WEIR_OBSERVER,
	                                   .fingerprint = s->fingerprint.text,
	                                   .accept = o->accepted->keys.items,
	                                   .accept_count = o->accepted->keys.count,
	                                   .security = security.is},
	                   err);
	snprintf(s->source, sizeof s->source, "the running job at %.1000s", address);
	return status;
}

static weir_status find_weights(struct scoring *s, const struct scoring_options *o, char path[WEIR_PATH_BYTES_MAX + 64],
                                weir_error *err)
{
	weir_error why = {0};
	if (o->weights) {
		snprintf(path, WEIR_PATH_BYTES_MAX + 64, "%s", o->weights);
	} else {
		if (join(s, o, &why) == WEIR_OK)
			return WEIR_OK;
		if (why.status == WEIR_E_INVALID) /* a job runs that differs from the job file */
			return weir_fail(err, why.status, "%s", why.text);
		snprintf(path, WEIR_PATH_BYTES_MAX + 64, "%s/best.safetensors", o->job->run_dir);
		if (o->at || access(path, R_OK) != 0)
			return weir_fail(err, why.status, "%s%s", why.text,
			                 o->at ? "" : "; nor has it left best.safetensors in its run directory");
	}
	snprintf(s->source, sizeof s->source, "%s", path);
	return WEIR_OK;
}

/* Opens the data only for the number of fields of their rows: reads no row and writes no parsed
 * copy. */
static weir_status open_shape(struct scoring *s, const struct scoring_options *o, weir_error *err)
{
	struct job *job = malloc(sizeof *job);
	if (!job)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening the data");
	memcpy(job, o->job, sizeof *job);
	snprintf(job->data.cache, sizeof job->data.cache, "off");
	const weir_status status = dataset_open_scored(&s->data, job, s->part, &(struct dataset_scored){.fields = 0}, o->logger, err);
	free(job);
	return status;
}

static weir_status open_data(struct scoring *s, const struct scoring_options *o, weir_error *err)
{
	if (o->find_only && !job_is_language(o->job))
		return open_shape(s, o, err);
	const struct dataset_scored scored = {.fields = s->scorer ? scorer_data(s->scorer)->fields : 0, .unlabelled = o->unlabelled};
	return o->every_line ? dataset_open_scored(&s->data, o->job, s->part, &scored, o->logger, err)
	                     : dataset_open(&s->data, o->job, s->part, o->logger, err);
}

static weir_status open_scorer(struct scoring *s, const struct scoring_options *o, const char *path, weir_error *err)
{
	struct scorer_options options = {.job = o->job, .client = s->client, .path = s->client ? NULL : path, .trusted = true};
	if (s->data)
		options.data = model_data_of(dataset_get_info(s->data));
	return scorer_open(&s->scorer, &options, err);
}

/* Compares the fingerprint of a weights file or a checkpoint. Does not compare if it has none. */
static weir_status compare(struct scoring *s, const struct scoring_options *o, const char *path, weir_error *err)
{
	struct snapshot *snapshot = NULL;
	struct weights_origin w = {.job = o->job, .data = s->data, .path = path, .was = ""};
	char *of_checkpoint = NULL;
	weir_status status = WEIR_OK;
	if (s->checkpoint) {
		status = import_checkpoint_fingerprint(o->job, path, &of_checkpoint, err);
		w.was = of_checkpoint ? of_checkpoint : "";
	} else {
		status = snapshot_open(&snapshot, path, err);
		w.was = status == WEIR_OK ? snapshot_fingerprint(snapshot) : "";
		w.foreign = status == WEIR_OK && snapshot_is_folder(snapshot);
		w.vocabulary = status == WEIR_OK ? snapshot_data(snapshot).vocabulary : 0;
	}
	if (status == WEIR_OK)
		status = accepted_check_weights(o->accepted, &w, err);
	free(s->fingerprint.text); /* of the job, which is not running */
	s->fingerprint = (struct fingerprint){.text = NULL};
	if (status == WEIR_OK && !(s->fingerprint.text = strdup(w.was)))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory for the fingerprint of %s", path);
	snapshot_close(snapshot);
	free(of_checkpoint);
	return status;
}

weir_status scoring_open(struct scoring *s, const struct scoring_options *o, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 64];
	*s = (struct scoring){0};
	weir_status status = choose_part(s, o, err);
	if (status == WEIR_OK)
		status = find_weights(s, o, path, err);
	s->checkpoint = status == WEIR_OK && !s->client && import_is_checkpoint(path);
	if (s->checkpoint && !o->find_only)
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "%s: expected a safetensors file, or a folder of a model or of adapters; weir export makes folders of checkpoints",
		    path);
	/* When every line is read whatever is wrong with it, the weights file tells how to read it. */
	const bool by_file = o->every_line && !s->client && !job_is_language(o->job);
	if (status == WEIR_OK && by_file)
		status = compare(s, o, path, err);
	if (status == WEIR_OK && by_file)
		status = open_scorer(s, o, path, err);
	if (status == WEIR_OK && (s->client || s->checkpoint || !o->find_only))
		status = open_data(s, o, err);
	if (status == WEIR_OK && !s->client && !by_file)
		status = compare(s, o, path, err);
	if (status == WEIR_OK && !o->find_only && !by_file)
		status = open_scorer(s, o, path, err);
	return status;
}

void scoring_close(struct scoring *s)
{
	if (s->scorer)
		scorer_close(s->scorer);
	if (s->client)
		weir_close(s->client, NULL);
	if (s->data)
		dataset_close(s->data);
	free(s->fingerprint.text);
	*s = (struct scoring){0};
}

static weir_status spare_inputs(const struct scoring_verb *v, const struct job *job, weir_error *err)
{
	const weir_status status = output_spares_job(v->out, job, v->job.path, err);
	return status == WEIR_OK && v->scoring.weights ? output_spares(v->out, v->scoring.weights, "what --weights names", err)
	                                               : status;
}

int scoring_verb_main(struct scoring_verb *v, const struct option *options, uint32_t options_count, int count, char **args)
{
	struct job *job = NULL;
	const char *word = NULL;
	weir_error err = {0};
	weir_status status = options_parse(count, args, options, options_count, &word, 1, &err);
	if (status == WEIR_OK)
		status = job_options_take(&v->job, word, &err);
	if (status == WEIR_OK && v->needs_out && !v->out)
		status = weir_fail(&err, WEIR_E_INVALID, "needs --out FILE");
	if (status == WEIR_OK)
		status = check_part(v->scoring.part, &err);
	if (status == WEIR_OK)
		status = fingerprint_check_accepted(v->accepted.keys.items, v->accepted.keys.count, &err);
	v->scoring.accepted = &v->accepted;
	if (status == WEIR_OK && v->check)
		status = v->check(v, &err);
	if (status == WEIR_OK)
		status = job_options_logger(&v->job, "weir", LOG_WARN, &v->scoring.logger, &err);
	if (status != WEIR_OK)
		return verb_usage(v->name, &err);
	status = job_options_load(&v->job, &job, &err);
	if (status == WEIR_OK && !v->takes_foreign)
		status = job_check_own(job, &err);
	v->scoring.job = job;
	if (status == WEIR_OK && v->out)
		status = spare_inputs(v, job, &err);
	if (status == WEIR_OK)
		device_show(job, 0);
	if (status == WEIR_OK)
		status = column_facts_settle(job, FACTS_WEIGHTS, v->scoring.logger, &err);
	if (status == WEIR_OK)
		status = v->run(v, &err);
	job_destroy(job);
	accepted_destroy(&v->accepted);
	logger_destroy(v->scoring.logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail(v->name, &err);
}
