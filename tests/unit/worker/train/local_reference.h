/* The definition of rounds of local steps, as plain loops over host memory, and the scenarios in
 * which workers are held against it. */
#ifndef WEIR_TESTS_LOCAL_REFERENCE_H
#define WEIR_TESTS_LOCAL_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/table.h"

enum { ELEMENTS = 2 * WEIR_CHUNK + 19000, CHUNKS = 3, FRAGMENTS_MAX = 3, BATCHES_MAX = 16 };
#define INNER_RATE     0.25f
#define INNER_MOMENTUM 0.5f
#define OUTER_RATE     0.7f
#define OUTER_MOMENTUM 0.9f
#define OUTER_BETA1    0.9f
#define OUTER_BETA2    0.95f
#define OUTER_EPS      1e-8f
#define OUTER_DECAY    0.01f

struct scenario {
	/* shortened: 0, or the steps of the lease instead of the table's */
	uint32_t steps, shortened, fragments, overlap;
	float merge;
	weir_optimizer_kind inner, outer;
	bool late;          /* acknowledgements are polled only when needed */
	bool device;        /* emulated */
	const char *pushes; /* by batch of a unit: a bit for each pushed fragment */
};

struct reference {
	/* (ELEMENTS); the last three are velocities or moments */
	float *own, *global, *server, *inner, *outer, *squares;
	uint32_t outer_steps[FRAGMENTS_MAX];
	bool pushed[FRAGMENTS_MAX]; /* and not merged yet */
	uint32_t pushed_by[FRAGMENTS_MAX];
	bool applied[BATCHES_MAX]; /* an earlier attempt's pushes count; repeated ones do not */
};

uint32_t scenario_batches(const struct scenario *s); /* of a unit */
uint32_t scenario_mask(const struct scenario *s, uint32_t batch);
/* The first element of fragment f: three chunks are in one, two or three fragments. */
uint64_t scenario_fragment(uint32_t fragments, uint32_t f);

float *local_numbers(void); /* (ELEMENTS), all 0 */
void reference_open(struct reference *r);
void reference_close(struct reference *r);
/* Before the batch; `first`: of the lease. */
void reference_begin(struct reference *r, const struct scenario *s, uint32_t batch, bool first);
/* The step of a batch with its gradient. */
void reference_step(struct reference *r, const struct scenario *s, uint32_t batch, const float *grad);
/* Towards a target per element, with noise by batch. */
void local_gradient(const float *own, uint64_t seed, uint32_t batch, float *out);
void local_expect_close(const char *what, uint32_t batch, const float *got, const float *want, float error);

#endif
