#include "cli/core/health.h"

#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"

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
	wire_destroy(m);
	message_release(reply);
	if (channel)
		rpc_channel_close(channel);
	return status;
}
