/* Shared by the trainers of the integration tests. */
#ifndef WEIR_TESTS_TRAINER_TOOL_H
#define WEIR_TESTS_TRAINER_TOOL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "weir/weir.h"

/* Prints the error. Returns the exit status of a failed program. */
static inline int trainer_fail(const char *what, const weir_error *e)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, e->text);
	return EXIT_FAILURE;
}

/* Milliseconds since 1970, comparable between processes. */
static inline double trainer_wall_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

#endif
