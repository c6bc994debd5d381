#include "tests/unit/worker/train/local_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"

uint32_t scenario_batches(const struct scenario *s)
{
	return (uint32_t)strlen(s->pushes);
}

uint32_t scenario_mask(const struct scenario *s, uint32_t batch)
{
	return (uint32_t)(s->pushes[batch] - '0');
}

float *local_numbers(void)
{
	float *x = calloc(ELEMENTS, sizeof *x);
	assert_non_null(x);
	return x;
}

void reference_open(struct reference *r)
{
	*r = (struct reference){.own = local_numbers(),
	                        .global = local_numbers(),
	                        .server = local_numbers(),
	                        .inner = local_numbers(),
	                        .outer = local_numbers(),
	                        .squares = local_numbers()};
}

void reference_close(struct reference *r)
{
	free(r->own);
	free(r->global);
	free(r->server);
	free(r->inner);
	free(r->outer);
	free(r->squares);
}

uint64_t scenario_fragment(uint32_t fragments, uint32_t f)
{
	static const uint64_t chunk[FRAGMENTS_MAX][FRAGMENTS_MAX + 1] = {{0, 3}, {0, 1, 3}, {0, 1, 2, 3}};
	const uint64_t at = chunk[fragments - 1][f] * WEIR_CHUNK;
	return at < ELEMENTS ? at : ELEMENTS;
}

/* A pushed fragment is merged before the next push, also in shortened rounds. */
static uint32_t overlap_of(const struct scenario *s)
{
	const uint32_t apart = (s->shortened ? s->shortened : s->steps) / s->fragments;
	return s->overlap < apart ? s->overlap : apart ? apart - 1 : 0;
}

void reference_begin(struct reference *r, const struct scenario *s, uint32_t batch, bool first)
{
	for (uint32_t f = 0; f < s->fragments; f++) {
		const uint64_t begin = scenario_fragment(s->fragments, f), end = scenario_fragment(s->fragments, f + 1);
		if (!first && !(r->pushed[f] && (batch > r->pushed_by[f] + overlap_of(s) || scenario_mask(s, batch) >> f & 1)))
			continue;
		const float merge = first ? 1 : s->merge;
		for (uint64_t i = begin; i < end; i++) {
			r->global[i] = r->server[i];
			r->own[i] = merge == 1.0f ? r->server[i] : merge * r->server[i] + (1 - merge) * r->own[i];
		}
		r->pushed[f] = false;
	}
}

/* The t-th push. */
static void adamw_step(struct reference *r, uint32_t t, uint64_t i, double delta)
{
	const double m = OUTER_BETA1 * (double)r->outer[i] + (1 - (double)OUTER_BETA1) * delta;
	const double v = OUTER_BETA2 * (double)r->squares[i] + (1 - (double)OUTER_BETA2) * delta * delta;
	const double unbiased_m = m / (1 - pow(OUTER_BETA1, t)), unbiased_v = v / (1 - pow(OUTER_BETA2, t));
	const double x = r->server[i];
	r->outer[i] = (float)m;
	r->squares[i] = (float)v;
	r->server[i] = (float)(x - OUTER_RATE * (unbiased_m / (sqrt(unbiased_v) + OUTER_EPS) + OUTER_DECAY * x));
}

static void outer_step(struct reference *r, const struct scenario *s, uint32_t t, uint64_t i)
{
	const float delta = r->global[i] - r->own[i];
	if (s->outer == WEIR_OPT_ADAMW) {
		adamw_step(r, t, i, delta);
		return;
	}
	if (s->outer == WEIR_OPT_SGD) {
		r->server[i] -= OUTER_RATE * delta;
		return;
	}
	r->outer[i] = OUTER_MOMENTUM * r->outer[i] + delta;
	r->server[i] -= OUTER_RATE * (delta + OUTER_MOMENTUM * r->outer[i]);
}

void reference_step(struct reference *r, const struct scenario *s, uint32_t batch, const float *grad)
{
	for (uint64_t i = 0; i < ELEMENTS; i++) {
		r->inner[i] = s->inner == WEIR_OPT_SGD ? grad[i] : INNER_MOMENTUM * r->inner[i] + grad[i];
		r->own[i] -= INNER_RATE * r->inner[i];
	}
	for (uint32_t f = 0; f < s->fragments; f++) {
		if (!(scenario_mask(s, batch) >> f & 1))
			continue;
		r->outer_steps[f] += !r->applied[batch];
		for (uint64_t i = scenario_fragment(s->fragments, f); i < scenario_fragment(s->fragments, f + 1) && !r->applied[batch];
		     i++)
			outer_step(r, s, r->outer_steps[f], i);
		r->pushed[f] = true;
		r->pushed_by[f] = batch;
	}
	r->applied[batch] = true;
}

void local_gradient(const float *own, uint64_t seed, uint32_t batch, float *out)
{
	for (uint64_t i = 0; i < ELEMENTS; i++) {
		const float target = (float)(int64_t)(i % 977) / 977.0f - 0.5f;
		const float noise = (float)(prng_mix(seed, batch, i) >> 40) * 0x1p-24f - 0.5f;
		out[i] = own[i] - target + 0.125f * noise;
	}
}

void local_expect_close(const char *what, uint32_t batch, const float *got, const float *want, float error)
{
	for (uint64_t i = 0; i < ELEMENTS; i++)
		if (!(fabsf(got[i] - want[i]) <= error))
			fail_msg("batch %u: %s[%llu] is %.9g, expected %.9g", batch, what, (unsigned long long)i, (double)got[i],
			         (double)want[i]);
}
