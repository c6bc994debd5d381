#include "tests/sim/sim_test.h"

int main(void)
{
	return test_world() + test_network() + test_disk();
}
