/* weir import: sets the rows of a running job to those of a safetensors file or a checkpoint, by logged assignments. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend.h"
#include "dataset.h"
#include "import_checkpoint.h"
#include "options.h"
#include "snapshot.h"
#include "tables.h"
#include "train.h"
#include "verbs.h"

struct import {
	struct job_options options;
	const char *at, *in;
	struct job *job;
	struct logger *logger;
	struct dataset *data;
	struct snapshot *snapshot; /* NULL: from a checkpoint */
	struct backend *backend;
	struct model *model;
	weir_client *client;
};

/* The model's shapes come from the job and its data; the file must have them. */
static weir_status open_model(struct import *i, weir_error *err)
{
	weir_status s = import_is_checkpoint(i->in) ? WEIR_OK : snapshot_open(&i->snapshot, i->in, err);
	if (s == WEIR_OK)
		s = dataset_open(&i->data, i->job, SPLIT_TRAIN, i->logger, err);
	if (s == WEIR_OK && !(i->backend = backend_open("cpu", 1, err)))
		s = err->status;
	if (s != WEIR_OK)
		return s;
	const struct dataset_info *info = dataset_get_info(i->data);
	s = model_create(&i->model, i->backend, i->job, info->fields, info->dense_dim, err);
	return s == WEIR_OK && i->snapshot ? snapshot_bind(i->snapshot, i->model, err) : s;
}

static weir_status import(struct import *i, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX], name[WEIR_NAME_BYTES_MAX];
	weir_status s = launch_find_ledger(i->job, i->at, address, err);
	snprintf(name, sizeof name, "weir-%d", (int)getpid());
	if (s == WEIR_OK)
		s = open_model(i, err);
	if (s == WEIR_OK)
		s = weir_open(&i->client, &(weir_options){.ledger = address, .name = name, .role = WEIR_OBSERVER}, err);
	if (s != WEIR_OK)
		return s;
	const struct training_length length = training_length_of(i->job, dataset_get_info(i->data));
	struct tables tables = {0};
	uint64_t rows = 0;
	s = tables_register(&tables, i->model, &length, i->client, err);
	if (s == WEIR_OK)
		s = i->snapshot ? snapshot_assign(i->snapshot, &tables, i->client, &rows, err)
		                : import_checkpoint(i->job, i->in, &tables, i->client, &rows, err);
	if (s == WEIR_OK)
		printf("%s: %" PRIu64 " rows and the dense weights are set in the job at %s\n", i->in, rows, address);
	return s;
}

static void import_free(struct import *i)
{
	if (i->client)
		weir_close(i->client, NULL);
	model_destroy(i->model);
	if (i->backend)
		i->backend->ops->destroy(i->backend);
	snapshot_close(i->snapshot);
	if (i->data)
		dataset_close(i->data);
	logger_destroy(i->logger);
	job_free(i->job);
}

int verb_import(int count, char **args)
{
	struct import i = {0};
	const struct option options[] = {JOB_OPTIONS(&i.options), {"--at", OPTION_TEXT, &i.at}, {"--in", OPTION_TEXT, &i.in}};
	const char *word = NULL;
	weir_error err = {0};
	weir_status s = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	i.options.path = word ? word : i.options.path;
	if (s == WEIR_OK && !i.in)
		s = weir_fail(&err, WEIR_E_INVALID, "needs --in FILE.safetensors, or --in a checkpoint");
	if (s == WEIR_OK)
		s = job_options_logger(&i.options, "weir", LOG_WARN, &i.logger, &err);
	if (s != WEIR_OK)
		return verb_usage("import", &err);
	s = job_options_load(&i.options, &i.job, &err);
	if (s == WEIR_OK)
		s = import(&i, &err);
	import_free(&i);
	return s == WEIR_OK ? EXIT_SUCCESS : verb_fail("import", &err);
}
