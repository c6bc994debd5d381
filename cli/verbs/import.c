/* weir import: sets the rows of a running job from a safetensors file or a checkpoint, by logged
 * assignments. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/core/options.h"
#include "cli/core/status_poller.h"
#include "cli/core/verbs.h"
#include "cli/run/import_checkpoint.h"
#include "cli/run/job_servers.h"
#include "cli/run/weights_file.h"
#include "worker/data/column_facts.h"
#include "worker/train/batch/tables.h"

struct import {
	struct job_options options;
	struct accepted accepted;
	const char *at, *in;
	struct job *job;
	struct logger *logger;
	struct weights_file weights;
	struct fingerprint fingerprint; /* of the job; must match that of the running job */
	weir_client *client;
};

/* Checks that the job does not train: pushes in flight could otherwise apply before or after the
 * assignments. */
static weir_status check_idle(const struct import *i, const char *address, weir_error *err)
{
	struct status_poller *w = NULL;
	struct overview o = {0};
	weir_status status = status_poller_open(&w, i->job, address, i->logger, err);
	if (status == WEIR_OK)
		status = status_poller_poll(w, WEIR_CONTROL_TIMEOUT_MS, &o, err);
	if (status == WEIR_OK && o.workers_live > 0)
		status =
		    weir_fail(err, WEIR_E_STATE,
		              "the job at %s trains, with %u worker%s: stop them before an import, or begin a run with these weights by "
		              "train.warm_start",
		              address, o.workers_live, o.workers_live == 1 ? "" : "s");
	overview_destroy(&o);
	status_poller_close(w);
	return status;
}

static weir_status import(struct import *i, weir_error *err)
{
	char address[JOB_PLACES_BYTES], name[WEIR_NAME_BYTES_MAX];
	struct job_security security;
	job_security(i->job, ROLE_ADMIN, &security);
	weir_status status = job_servers_find_ledger(i->job, i->at, address, err);
	snprintf(name, sizeof name, "weir-%d", (int)getpid());
	if (status == WEIR_OK)
		status = weights_file_open(&i->weights, i->job, i->in, &i->accepted, i->logger, err);
	const struct fingerprint_parts parts = {.items = {i->weights.data}, .weights_only = true};
	if (status == WEIR_OK)
		status = job_fingerprint(i->job, &parts, &i->fingerprint, err);
	if (status == WEIR_OK)
		status = weir_open(&i->client,
		                   &(weir_options){.ledger = address,
		                                   .name = name,
		                                   .role = WEIR_OBSERVER,
		                                   .fingerprint = i->fingerprint.text,
		                                   .security = security.is},
		                   err);
	if (status == WEIR_OK) /* the ledger answers, because it has accepted this client */
		status = check_idle(i, address, err);
	if (status != WEIR_OK)
		return status;
	const struct training_length length = training_length_of(i->job, i->weights.data);
	struct tables tables = {0};
	uint64_t rows = 0;
	status = tables_register(&tables, i->weights.model, &length, i->client, err);
	if (status == WEIR_OK)
		status = i->weights.snapshot ? snapshot_assign(i->weights.snapshot, &tables, i->client, &rows, err)
		                             : import_checkpoint(i->job, i->in, &tables, i->client, &rows, err);
	if (status == WEIR_OK)
		printf("%s: %" PRIu64 " rows and the dense weights are set in the job at %s\n", i->in, rows, address);
	return status;
}

static void import_destroy(struct import *i)
{
	if (i->client)
		weir_close(i->client, NULL);
	weights_file_close(&i->weights);
	logger_destroy(i->logger);
	job_destroy(i->job);
	accepted_destroy(&i->accepted);
	free(i->fingerprint.text);
}

int verb_import(int count, char **args)
{
	struct import i = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&i.options),
	    AT_OPTION(i.at),
	    ACCEPT_OPTION(i.accepted),
	    {"--in", OPTION_TEXT, &i.in, "PATH", "weights as a safetensors file, a model folder, or a checkpoint's folder"}};
	const char *word = NULL;
	weir_error err = {0};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	if (status == WEIR_OK)
		status = job_options_take(&i.options, word, &err);
	if (status == WEIR_OK && !i.in)
		status = weir_fail(&err, WEIR_E_INVALID, "needs --in FILE.safetensors, --in a model folder, or --in a checkpoint");
	if (status == WEIR_OK)
		status = fingerprint_check_accepted(i.accepted.keys.items, i.accepted.keys.count, &err);
	if (status == WEIR_OK)
		status = job_options_logger(&i.options, "weir", LOG_WARN, &i.logger, &err);
	if (status != WEIR_OK)
		return verb_usage("import", &err);
	status = job_options_load(&i.options, &i.job, &err);
	if (status == WEIR_OK)
		status = job_check_own(i.job, &err);
	if (status == WEIR_OK)
		status = column_facts_settle(i.job, FACTS_WEIGHTS, i.logger, &err);
	if (status == WEIR_OK)
		status = import(&i, &err);
	import_destroy(&i);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("import", &err);
}
