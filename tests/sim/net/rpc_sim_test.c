/* Runs the suite of rpc_conformance.c over the simulated network, in several worlds: from one
 * message in flight at a time to many, with packets in any order. */
#include <stdio.h>

#include "tests/sim/net/network.h"
#include "tests/unit/proto/rpc_fixture.h"

enum { SEEDS = 3 };

struct rpc *fixture_rpc(const char *transport)
{
	(void)transport;
	return rpc_sim_create(NULL);
}

static int failures;

static void suite(void *arg)
{
	const uint32_t *seed = arg;
	network_begin(&(struct network_mood){
	    .delay_ns = 1 * SIM_MS, .rare_delay_ns = 15 * SIM_MS, .rare = *seed % 2 ? 0.05 : 0, .window = *seed % 6 + 1});
	failures += conformance_run("sim");
}

int main(void)
{
	for (uint32_t seed = 0; seed < SEEDS; seed++)
		world_run(&(struct world_options){.seed = seed, .preempt = 0.05, .spurious = 0.01}, suite, &seed);
	return failures;
}
