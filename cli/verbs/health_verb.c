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
	weir_status s = transport_open(&rpc, job, logger, err);
	if (s == WEIR_OK && !(loop = rpc_loop_create(rpc, "health", err)))
		s = weir_fail(err, WEIR_E_MEMORY, "no memory for a loop");
	if (s == WEIR_OK)
		s = health_check(rpc, loop, at, ready ? "ready" : "", HEALTH_TIMEOUT_MS, serves, err);
	if (loop)
		rpc_loop_destroy(loop);
	if (rpc)
		rpc_destroy(rpc);
	return s;
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
	weir_status s = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	jo.path = word ? word : jo.path;
	if (s == WEIR_OK && !at)
		s = weir_fail(&err, WEIR_E_INVALID, "needs --at ADDRESS, of a server");
	if (s == WEIR_OK)
		s = job_options_logger(&jo, "weir", LOG_ERROR, &logger, &err);
	if (s != WEIR_OK)
		return verb_usage("health", &err);
	if (jo.path)
		s = job_options_load(&jo, &job, &err);
	if (s == WEIR_OK)
		s = run(job, at, ready, logger, &serves, &err);
	if (s == WEIR_OK && !serves)
		s = weir_fail(&err, WEIR_E_UNAVAILABLE, "%s is not %s", at,
		              ready ? "ready: it has not come into sync everywhere, or is about to end"
		                    : "serving any more: it is about to end");
	job_free(job);
	logger_destroy(logger);
	return s == WEIR_OK ? EXIT_SUCCESS : verb_fail("health", &err);
}
