/* Contexts with stacks of their own, switched by hand: the threads of an emulated block. */
#ifndef WEIR_TESTS_FIBER_H
#define WEIR_TESTS_FIBER_H

#include <stddef.h>

struct fiber;

/* Begins `body` on a stack of its own, and returns when it ends or yields. */
struct fiber *fiber_begin(void (*body)(void *), void *argument);
/* Goes on with a fiber that has yielded, until it ends or yields again. */
void fiber_resume(struct fiber *f);
/* Back to whoever began or resumed the running fiber. */
void fiber_yield(void);
bool fiber_ended(const struct fiber *f);
/* Its stack may be used by another. */
void fiber_release(struct fiber *f);

#endif
