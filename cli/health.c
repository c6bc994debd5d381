#include "health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "transport.h"
#include "verbs.h"
#include "wire.h"

#define HEALTH_TIMEOUT_MS 2000u

weir_status health_check(struct rpc *rpc, struct rpc_loop *loop, const char *address, const char *service, uint32_t timeout_ms,
                         bool *serves, weir_error *err)
{
	Grpc__Health__V1__HealthCheckRequest q = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	q.service = (char *)(uintptr_t)service;
	struct rpc_channel *channel = NULL;
	struct message *request = wire_pack(&q.base), *reply = NULL;
	ProtobufCMessage *m = NULL;
	weir_status status =
	    request ? rpc_channel_open(&channel, rpc, loop, address, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for a request");
	if (!status)
		status = rpc_call_wait(channel, RPC_HEALTH_CHECK, request, timeout_ms, &reply, err);
	else
		message_release(request);
	if (!status)
		status = wire_unpack(&grpc__health__v1__health_check_response__descriptor, reply, &m, err);
	*serves = !status && ((const Grpc__Health__V1__HealthCheckResponse *)m)->status ==
	                         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
	wire_free(m);
	message_release(reply);
	if (channel)
		rpc_channel_close(channel);
	return status;
}

/* --- weir health: what a probe runs where it cannot speak gRPC itself. */

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
