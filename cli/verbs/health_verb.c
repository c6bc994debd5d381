/* weir health: a health check for probes that cannot speak gRPC themselves. */
#include "cli/core/health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/transport.h"
#include "cli/core/verbs.h"

#define HEALTH_TIMEOUT_MS 2000u

static weir_status run(const struct job *job, const char *at, bool ready, struct logger *logger, bool *serves, weir_error *err)
{
	struct rpc *rpc;
	struct rpc_loop *loop = NULL;
	weir_status status = transport_open(&rpc, job, logger, err);
	if (status == WEIR_OK && !(loop = rpc_loop_create(rpc, "health", err)))
		status = weir_fail(err, WEIR_E_MEMORY, "no memory for a loop");
	if (status == WEIR_OK)
		status = health_check(rpc, loop, at, ready ? "ready" : "", HEALTH_TIMEOUT_MS, serves, err);
	if (loop)
		rpc_loop_destroy(loop);
	if (rpc)
		rpc_destroy(rpc);
	return status;
}

int verb_health(int count, char **args)
{
	struct job_options jo = {0};
	struct job *job = NULL;
	struct logger *logger = NULL;
	const char *at = NULL, *word = NULL;
	bool ready = false, serves = false;
	weir_error err = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&jo),
	    {"--at", OPTION_TEXT, &at, "ADDRESS", "HOST:PORT of the server"},
	    {"--ready", OPTION_FLAG, &ready, NULL, "whether it is in sync in all that it is to have, too"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	jo.path = word ? word : jo.path;
	if (status == WEIR_OK && !at)
		status = weir_fail(&err, WEIR_E_INVALID, "needs --at ADDRESS, of a server");
	if (status == WEIR_OK)
		status = job_options_logger(&jo, "weir", LOG_ERROR, &logger, &err);
	if (status != WEIR_OK)
		return verb_usage("health", &err);
	if (jo.path)
		status = job_options_load(&jo, &job, &err);
	if (status == WEIR_OK)
		status = run(job, at, ready, logger, &serves, &err);
	if (status == WEIR_OK && !serves)
		status = weir_fail(&err, WEIR_E_UNAVAILABLE, "%s is not %s", at,
		                   ready ? "ready: it has not come into sync everywhere, or is about to end"
		                         : "serving any more: it is about to end");
	job_destroy(job);
	logger_destroy(logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("health", &err);
}
