/* Checks in a child process of a crash test. */
#ifndef WEIR_TESTS_NEED_H
#define WEIR_TESTS_NEED_H

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { NEED_FAILED = 3 /* exit status */ };

/* Ends the process with a message unless ok. */
static inline void need(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s: %m\n", what);
		_exit(NEED_FAILED);
	}
}

#endif
