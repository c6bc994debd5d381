/* The table of methods, and destruction of a transport. */
#include <string.h>

#include "proto/rpc/rpc_transport.h"

static const struct {
	const char *path;
	bool stream, retry;
	unsigned roles;
} methods[RPC_METHODS] = {
#define RPC_METHOD_ROW(name, path, stream, retry, roles) [RPC_##name] = {path, stream, retry, roles},
    RPC_METHOD_MAP(RPC_METHOD_ROW) RPC_FOREIGN_METHOD_MAP(RPC_METHOD_ROW)
#undef RPC_METHOD_ROW
};

const char *rpc_method_path(enum rpc_method method)
{
	return methods[method].path;
}
const char *rpc_method_name(enum rpc_method method)
{
	return strrchr(methods[method].path, '/') + 1;
}
bool rpc_method_is_stream(enum rpc_method method)
{
	return methods[method].stream;
}
bool rpc_method_may_retry(enum rpc_method method)
{
	return methods[method].retry;
}

unsigned rpc_method_roles(enum rpc_method method)
{
	return methods[method].roles;
}

void rpc_observe(struct rpc *rpc, rpc_observe_fn fn, void *arg)
{
	rpc->observe = fn;
	rpc->observe_arg = arg;
}

void rpc_note(struct rpc *rpc, enum rpc_method method, bool served, int64_t ns)
{
	if (rpc->observe)
		rpc->observe(rpc->observe_arg, method, served, ns);
}

void rpc_destroy(struct rpc *rpc)
{
	if (!rpc)
		return;
	rpc_shapes_destroy(rpc->shapes);
	rpc->ops->destroy(rpc);
}
