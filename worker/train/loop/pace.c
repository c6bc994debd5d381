#include "worker/train/loop/pace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/prng.h"

#define MS 1000000ll

static bool is_slow(const struct job *job, uint32_t worker, int64_t wall_ns)
{
	const uint64_t window = (uint64_t)(wall_ns / (job->train.pace.turn_ms * MS));
	switch (job->train.pace.slow) {
	case SLOW_NONE:
		return false;
	case SLOW_ONE:
		return worker == 0;
	case SLOW_ROTATING:
		return prng_mix(job->train.seed, 0x70616365u, window) % job->cluster.workers == worker;
	}
	return false;
}

int64_t pace_of(const struct job *job, uint32_t worker, int64_t wall_ns)
{
	const int64_t batch_ns = job->train.pace.batch_ms * MS;
	return is_slow(job, worker, wall_ns) ? batch_ns * job->train.pace.times : batch_ns;
}

void pace_wait(const struct clock *clock, int64_t until_ns)
{
	for (int64_t left; (left = until_ns - clock->ops->monotonic_ns(clock)) > 0;) {
		const struct timespec t = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
		(void)nanosleep(&t, NULL); /* a signal ends it; the loop then checks the rest */
	}
}

uint32_t pace_worker(const char *name)
{
	const char *digits = name + strlen(name);
	while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	return (uint32_t)strtoul(digits, NULL, 10);
}
