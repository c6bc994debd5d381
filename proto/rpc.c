/* The table of methods, and destruction of a transport. */
#include "rpc_transport.h"

static const struct {
	const char *path;
	bool stream, retry;
} methods[RPC_METHODS] = {
#define RPC_METHOD_ROW(name, path, stream, retry) [RPC_##name] = {path, stream, retry},
    RPC_METHOD_MAP(RPC_METHOD_ROW) RPC_FOREIGN_METHOD_MAP(RPC_METHOD_ROW)
#undef RPC_METHOD_ROW
};

const char *rpc_method_path(enum rpc_method method)
{
	return methods[method].path;
}
bool rpc_method_is_stream(enum rpc_method method)
{
	return methods[method].stream;
}
bool rpc_method_may_retry(enum rpc_method method)
{
	return methods[method].retry;
}

void rpc_destroy(struct rpc *rpc)
{
	if (!rpc)
		return;
	rpc_shapes_destroy(rpc->shapes);
	rpc->ops->destroy(rpc);
}
