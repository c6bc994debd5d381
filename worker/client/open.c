/* weir_open: a client over gRPC. Separate from client.c, so that tests over memory need no gRPC. */
#include "worker/client/client.h"

weir_status weir_open(weir_client **out, const weir_options *options, weir_error *err)
{
	struct rpc *rpc = rpc_grpc_create(NULL);
	if (!rpc)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a gRPC transport");
	const struct rpc_network network = {options->network.rate_bits_per_s, options->network.latency_ms};
	weir_status status = rpc_shape(rpc, &network);
	if (status != WEIR_OK)
		(void)weir_fail(err, status, "no memory for a simulated network");
	else
		status = rpc_grpc_secure(rpc, &options->security, err);
	if (status == WEIR_OK)
		status = client_open(out, options, rpc, err);
	if (status == WEIR_OK)
		(*out)->rpc_owned = true;
	else
		rpc_destroy(rpc);
	return status;
}
