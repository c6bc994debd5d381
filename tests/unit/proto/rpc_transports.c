/* The transports that tests choose by name. */
#include <string.h>

#include "rpc_fixture.h"

struct rpc *fixture_rpc(const char *transport)
{
	return strcmp(transport, "memory") == 0 ? rpc_memory_create(NULL) : rpc_grpc_create(NULL);
}
