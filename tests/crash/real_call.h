/* REAL(name): the function that a preloaded library replaces. */
#ifndef WEIR_TESTS_REAL_CALL_H
#define WEIR_TESTS_REAL_CALL_H

#include <dlfcn.h>
#include <stdlib.h>

#define REAL(name) ((__typeof__(&name))real_call(#name))

static inline void *real_call(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);
	if (!f)
		abort();
	return f;
}

#endif
