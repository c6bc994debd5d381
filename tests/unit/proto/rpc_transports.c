/* The transports that tests choose by name. */
#include <string.h>

#include "tests/unit/proto/rpc_fixture.h"

/* Prefix "slow-": a network slow enough that messages queue, and fast enough for the suite. */
struct rpc *fixture_rpc(const char *transport)
{
	const struct rpc_network slow = {.rate_bits_per_s = 2000000000, .latency_ms = 2};
	const bool is_slow = strncmp(transport, "slow-", 5) == 0;
	struct rpc *rpc = strcmp(transport + (is_slow ? 5 : 0), "memory") == 0 ? rpc_memory_create(NULL) : rpc_grpc_create(NULL);
	if (rpc && strstr(transport, "lane"))
		rpc_grpc_serve_lanes(rpc, &(struct rpc_lanes){0});
	if (rpc && is_slow && rpc_shape(rpc, &slow)) {
		rpc_destroy(rpc);
		return NULL;
	}
	return rpc;
}
