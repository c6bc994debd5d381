/* The rules on runs of elements (on whole rows if the rule reduces a row), in this variant. Each
 * rule's header says what its slots are. */
#include "kernels/rules/adagrad.h"
#include "kernels/rules/average.h"
#include "kernels/rules/delayed_nesterov.h"
#include "kernels/rules/ftrl.h"
#include "kernels/rules/lamb.h"
#include "kernels/rules/lion.h"
#include "kernels/rules/rule.h"
#include "kernels/rules/sgd.h"

RULE(sgd)
{
	(void)slot0, (void)slot1;
	for (size_t i = 0; i < n; i++)
		sgd_element(s, &value[i], grad[i]);
}

RULE(momentum)
{
	(void)slot1;
	for (size_t i = 0; i < n; i++)
		momentum_element(s, &value[i], &slot0[i], grad[i]);
}

RULE(nesterov)
{
	(void)slot1;
	for (size_t i = 0; i < n; i++)
		nesterov_element(s, &value[i], &slot0[i], grad[i]);
}

RULE(adagrad)
{
	(void)slot1;
	for (size_t i = 0; i < n; i++)
		adagrad_element(s, &value[i], &slot0[i], grad[i]);
}

RULE(adam)
{
	const struct optimizer_step local = *s; /* a copy that the stores below cannot change */
	for (size_t i = 0; i < n; i++)
		adam_element(&local, &value[i], &slot0[i], &slot1[i], grad[i]);
}

RULE(adamw)
{
	const struct optimizer_step local = *s;
	for (size_t i = 0; i < n; i++)
		adamw_element(&local, &value[i], &slot0[i], &slot1[i], grad[i]);
}

RULE(lion)
{
	(void)slot1;
	const struct optimizer_step local = *s;
	for (size_t i = 0; i < n; i++)
		lion_element(&local, &value[i], &slot0[i], grad[i]);
}

RULE(ftrl)
{
	if (ftrl_does_nothing(s))
		return;
	const struct optimizer_step local = *s;
	const float inverse_alpha = 1.0f / s->lr;
	for (size_t i = 0; i < n; i++)
		ftrl_element(&local, inverse_alpha, &value[i], &slot0[i], &slot1[i], grad[i]);
}

/* One body per place: loops without conditions. */
#define AVERAGE_LOOP(place)        \
	for (size_t i = 0; i < n; i++) \
	average_element(s, place, share, &value[i], &slot0[i], grad[i])

RULE(average)
{
	(void)slot1;
	const enum average_place place = average_place(s);
	const float share = average_share(s, place);
	switch (place) {
	case AVERAGE_FIRST:
		AVERAGE_LOOP(AVERAGE_FIRST);
		break;
	case AVERAGE_FIRST_WINDOW:
		AVERAGE_LOOP(AVERAGE_FIRST_WINDOW);
		break;
	case AVERAGE_WINDOW_BEGINS:
		AVERAGE_LOOP(AVERAGE_WINDOW_BEGINS);
		break;
	case AVERAGE_WINDOW:
		AVERAGE_LOOP(AVERAGE_WINDOW);
		break;
	}
}

RULE(delayed_nesterov)
{
	const float share = 1.0f / (float)s->k.window;
	if (delayed_nesterov_ends_window(s))
		for (size_t i = 0; i < n; i++)
			delayed_nesterov_element(s, true, share, &value[i], &slot0[i], &slot1[i], grad[i]);
	else
		for (size_t i = 0; i < n; i++)
			delayed_nesterov_element(s, false, share, &value[i], &slot0[i], &slot1[i], grad[i]);
}

/* --- Rows. Sixteen lanes: element i adds to lane i mod 16; lanes are then added pairwise. Every
 * instruction set does the same additions. */

#define LANES 16
struct lanes {
	float lane[LANES];
};

static inline float lanes_sum(const struct lanes *l)
{
	float s[LANES];
	memcpy(s, l->lane, sizeof s);
	for (int half = LANES / 2; half > 0; half /= 2)
		for (int i = 0; i < half; i++)
			s[i] += s[i + half];
	return s[0];
}

static inline void row_adagrad_observe(const struct optimizer_step *s, float value, float grad, float *squares)
{
	const float g = rule_gradient(s, grad, value);
	*squares += g * g;
}

RULE(row_adagrad)
{
	(void)slot0, (void)slot1;
	struct lanes squares = {0};
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			row_adagrad_observe(s, value[i + l], grad[i + l], &squares.lane[l]);
	for (size_t l = 0; i < n; i++, l++)
		row_adagrad_observe(s, value[i], grad[i], &squares.lane[l]);

	const float rate = row_adagrad_rate(s, s->accumulator, lanes_sum(&squares), n);
	for (i = 0; i < n; i++)
		value[i] -= rate * rule_gradient(s, grad[i], value[i]);
}

static inline void lamb_observe(const struct optimizer_step *s, float p, float *m, float *v, float grad, float *p_squares,
                                float *r_squares)
{
	adam_moments(s, m, v, rule_gradient(s, grad, p));
	const float r = lamb_direction(s, *m, *v, p);
	*p_squares += p * p;
	*r_squares += r * r;
}

RULE(lamb)
{
	const struct optimizer_step local = *s;
	struct lanes p_squares = {0}, r_squares = {0};
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lamb_observe(&local, value[i + l], &slot0[i + l], &slot1[i + l], grad[i + l], &p_squares.lane[l], &r_squares.lane[l]);
	for (size_t l = 0; i < n; i++, l++)
		lamb_observe(&local, value[i], &slot0[i], &slot1[i], grad[i], &p_squares.lane[l], &r_squares.lane[l]);

	const float rate = lamb_rate(&local, lanes_sum(&p_squares), lanes_sum(&r_squares));
	for (i = 0; i < n; i++)
		value[i] -= rate * lamb_direction(&local, slot0[i], slot1[i], value[i]);
}
