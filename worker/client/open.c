/* weir_open: a client over gRPC. Separate from client.c, so that tests over memory need no gRPC. */
#include "worker/client/api_struct.h"
#include "worker/client/client.h"

weir_status weir_open(weir_client **out, const weir_options *given, weir_error *err)
{
	weir_options known;
	const weir_options *options = &known;
	weir_status status = api_struct_read(API_weir_options, &known, given, err);
	if (status != WEIR_OK)
		return status;
	struct rpc *rpc = rpc_grpc_create(NULL);
	if (!rpc)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a gRPC transport");
	const struct rpc_network network = {options->network.rate_bits_per_s, options->network.latency_ms};
	status = rpc_shape(rpc, &network);
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
