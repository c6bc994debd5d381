/* The mean of what is pushed, over windows of N pushes: running statistics of batch norm, where workers push what they measured.
 * With t = 1..N counting the pushes of the present window:
 *   first window:  the value is the mean of the pushes so far; so the first push replaces the initial value;
 *   later windows: slot0 holds the value at the window's start, and each push replaces one Nth of it: p += (g - slot0) / N.
 * So at the end of a window the value is the mean of that window's pushes, and in between that of the last N with those of the
 * window before standing in by their mean. No rate, no L2. Rounding errors do not outlive a window. */
#include "rule.h"

RULE(average)
{
	(void)slot1;
	const uint32_t window = a->k->window, steps = a->state->steps;
	const uint32_t place = (steps - 1) % window; /* in the window, from 0 */
	const float scale = a->grad_scale;
	if (steps == 1 || window == 1) {
		for (size_t i = 0; i < n; i++)
			value[i] = grad[i] * scale;
	} else if (steps <= window) {
		const float share = 1.0f / (float)steps;
		for (size_t i = 0; i < n; i++)
			value[i] += (grad[i] * scale - value[i]) * share;
	} else {
		const float share = 1.0f / (float)window;
		for (size_t i = 0; i < n; i++) {
			slot0[i] = place == 0 ? value[i] : slot0[i];
			value[i] += (grad[i] * scale - slot0[i]) * share;
		}
	}
}
