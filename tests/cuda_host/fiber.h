/* Contexts with stacks of their own, switched explicitly: the threads of an emulated block. */
#ifndef WEIR_TESTS_FIBER_H
#define WEIR_TESTS_FIBER_H

#include <stddef.h>

struct fiber;

/* Runs `body` on a new stack; returns when it ends or yields. */
struct fiber *fiber_begin(void (*body)(void *), void *argument);
/* Resumes a fiber that yielded, until it ends or yields again. */
void fiber_resume(struct fiber *f);
/* Returns to the caller of fiber_begin or fiber_resume. */
void fiber_yield(void);
bool fiber_ended(const struct fiber *f);
/* Releases the stack for reuse. */
void fiber_release(struct fiber *f);

#endif
