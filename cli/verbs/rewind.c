/* weir rewind: rewinds a running job with replicated partitions to a checkpoint. Servers do that by
 * themselves when no full log of a partition remains. This verb is for an operator who knows that
 * the last full log was on a machine that will not return. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/transport.h"
#include "cli/core/verbs.h"
#include "cli/run/job_servers.h"
#include "cli/verbs/layout_verb.h"

static weir_status ask(struct rpc *rpc, const char *addresses, const char *from, weir_error *err)
{
	struct layout_asker *asker = NULL;
	struct layout *layout = calloc(1, sizeof *layout);
	struct rewind_record next;
	weir_status status =
	    layout ? layout_open(&asker, rpc, addresses, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for a layout");
	if (status == WEIR_OK) {
		layout_when_late(asker, layout_print_late, NULL);
		status = layout_ask(asker, layout, err);
	}
	if (status == WEIR_OK)
		status = layout_rewind(asker, layout, from && strcmp(from, "latest") != 0 ? from : "", LAYOUT_PATIENCE_MS, &next, err);
	if (status == WEIR_OK)
		printf("the job goes back to %s, after %" PRIu64 " batches, as generation %" PRIu64 ": its servers begin anew\n",
		       next.checkpoint, next.step, next.generation);
	layout_close(asker);
	free(layout);
	return status;
}

static weir_status run(const struct job *job, const char *at, const char *from, struct logger *logger, weir_error *err)
{
	char addresses[JOB_PLACES_BYTES];
	weir_status status = job_servers_find_ledger(job, at, addresses, err);
	struct rpc *rpc = NULL;
	if (status == WEIR_OK)
		status = transport_open(&rpc, job, logger, err);
	if (status == WEIR_OK)
		status = ask(rpc, addresses, from, err);
	if (rpc)
		rpc_destroy(rpc);
	return status;
}

int verb_rewind(int count, char **args)
{
	struct job_options jo = {0};
	struct job *job = NULL;
	struct logger *logger = NULL;
	const char *from = NULL, *at = NULL, *word = NULL;
	weir_error err = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&jo),
	    {"--from", OPTION_TEXT, &from, "NAME", "which checkpoint: its name, or latest (if not given)"},
	    AT_OPTION(at)};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	jo.path = word ? word : jo.path;
	if (status == WEIR_OK && !at && !jo.path)
		status = weir_fail(&err, WEIR_E_INVALID, "needs JOB.yaml or --at ADDRESS, of any server of the job");
	if (status == WEIR_OK && from && strlen(from) >= WEIR_CHECKPOINT_NAME_BYTES_MAX)
		status = weir_fail(&err, WEIR_E_INVALID, "--from: '%.60s...' is no checkpoint's name", from);
	if (status == WEIR_OK)
		status = job_options_logger(&jo, "weir", LOG_ERROR, &logger, &err);
	if (status != WEIR_OK)
		return verb_usage("rewind", &err);
	if (jo.path)
		status = job_options_load(&jo, &job, &err);
	if (status == WEIR_OK)
		status = run(job, at, from, logger, &err);
	job_destroy(job);
	logger_destroy(logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("rewind", &err);
}
