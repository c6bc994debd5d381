/* The time of the machine that runs a simulation, which replaces the other clocks. */
#ifndef WEIR_SIM_MACHINE_TIME_H
#define WEIR_SIM_MACHINE_TIME_H

#include <time.h>

static inline double machine_time_s(void)
{
	struct timespec t;
	timespec_get(&t, TIME_UTC);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
