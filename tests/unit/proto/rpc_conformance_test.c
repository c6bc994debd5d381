/* The suite over a real transport: test_rpc_conformance memory|unix|tcp. */
#include "tests/unit/proto/rpc_fixture.h"

int main(int argc, char **argv)
{
	return conformance_run(argc > 1 ? argv[1] : "memory");
}
