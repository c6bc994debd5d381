/* The mean of the pushed values, over windows of N pushes: for running statistics of batch norm,
 * where workers push their measurements. t = 1..N counts the pushes of the present window:
 *   first window:  the value is the mean of the pushes so far; so the first push replaces the
 *                  initial value;
 *   later windows: `start` holds the value at the window's start, and each push replaces one Nth of
 *                  it: p += (g - start) / N.
 * At the end of a window the value is the mean of its pushes. Within a window it is the mean of the
 * last N pushes, with the mean of the previous window standing for each push of that window. No
 * rate, no L2. Rounding errors do not outlive a window. */
#ifndef WEIR_AVERAGE_H
#define WEIR_AVERAGE_H

#include "kernels/rules/arithmetic.h"

enum average_place { AVERAGE_FIRST, AVERAGE_FIRST_WINDOW, AVERAGE_WINDOW_BEGINS, AVERAGE_WINDOW };

ALWAYS_INLINE enum average_place average_place(const struct optimizer_step *s)
{
	if (s->steps == 1 || s->k.window == 1)
		return AVERAGE_FIRST;
	if (s->steps <= s->k.window)
		return AVERAGE_FIRST_WINDOW;
	return (s->steps - 1) % s->k.window == 0 ? AVERAGE_WINDOW_BEGINS : AVERAGE_WINDOW;
}

/* The share of a push. */
ALWAYS_INLINE float average_share(const struct optimizer_step *s, enum average_place place)
{
	return 1.0f / (float)(place == AVERAGE_FIRST_WINDOW ? s->steps : s->k.window);
}

ALWAYS_INLINE void average_element(const struct optimizer_step *s, enum average_place place, float share, float *value,
                                   float *start, float grad)
{
	const float g = grad * s->grad_scale;
	if (place == AVERAGE_WINDOW_BEGINS)
		*start = *value;
	if (place == AVERAGE_FIRST)
		*value = g;
	else if (place == AVERAGE_FIRST_WINDOW)
		*value += (g - *value) * share;
	else
		*value += (g - *start) * share;
}

#endif
