#include "cli/core/transport.h"

weir_status transport_open(struct rpc **out, const struct job *job, struct logger *logger, weir_error *err)
{
	struct job_security security;
	*out = rpc_grpc_create(logger);
	if (!*out)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a transport");
	if (!job)
		return WEIR_OK;
	job_security(job, ROLE_ADMIN, &security);
	const weir_status status = rpc_grpc_secure(*out, &security.is, err);
	if (status) {
		rpc_destroy(*out);
		*out = NULL;
	}
	return status;
}
