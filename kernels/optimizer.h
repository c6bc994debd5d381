/* Update rules on rows: the value first, then its optimizer slots, all fp32 and contiguous; plus
 * two words per row for some rules.
 *
 * Deterministic on every machine: element-wise, no libm, no contraction; reductions of a row (LAMB,
 * row-wise Adagrad) use a fixed 16-lane order. Vectorised through a function table chosen once by
 * the CPU's features; every variant gives the same bits. Sources: ALGORITHMS in docs; each rule's
 * file cites its paper and equation. */
#ifndef WEIR_OPTIMIZER_H
#define WEIR_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/optimizer_traits.h"
#include "weir/status.h"
#include "weir/table.h"

/* Scalars of one application: computed where the entry is made (schedules use libm there) and
 * carried in the entry. */
struct optimizer_scalars {
	float lr;         /* after the schedule */
	float grad_scale; /* factor of gradients, applied first (1 / members of a step; otherwise 1) */
	uint64_t element; /* of a dense table: the row's first element */
};

/* Per-row state beside value and slots; all zero for a row that was never pushed. */
struct row_state {
	/* steps applied to this row: its pushes, and with full decay also the steps without it. For
	 * Adam's bias correction and for windows */
	uint32_t steps;
	float accumulator; /* of row-wise Adagrad; unused by other rules */
};

/* A table's progress in one partition. */
struct optimizer_clock {
	uint64_t steps; /* applied steps with rows of the table: pushes, or closed synchronous steps */
	float lr;       /* of the last step, after the schedule */
};

/* The constants of a table's optimizer. */
struct rule_constants {
	float momentum, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, initial, weight_decay, l1, l2, ftrl_beta;
	uint32_t window;
};

/* One step of a rule in numbers: all that rules/ need beside value, slots and gradient, and the
 * argument of a backend's `update`. */
struct optimizer_step {
	struct rule_constants k;
	weir_optimizer_kind kind;
	float lr, grad_scale;
	float correction1, correction2; /* Adam family: 1 / (1 - beta^t) */
	uint32_t steps;                 /* of the row, including this one */
	float *accumulator;             /* row-wise Adagrad: the row's; for many rows, an array */
};

/* The first value of every slot; and the first slots of a row of n elements: slots (slots * n). */
float optimizer_first_slot(const weir_optimizer *o);
void optimizer_init_slots(const weir_optimizer *o, float *slots, size_t n);
weir_status optimizer_check(const weir_optimizer *o, weir_error *err) WEIR_MUST_CHECK;

struct optimizer; /* a rule prepared for a table: function pointers and constants */
struct optimizer *optimizer_create(const weir_optimizer *spec, weir_error *err);
/* For a dense table: exempts the elements of undecayed segments from weight decay. Call before the
 * first step. E_MEMORY. */
weir_status optimizer_leave_out(struct optimizer *o, const weir_init_segment *segments, uint32_t count,
                                weir_error *err) WEIR_MUST_CHECK;
/* The number of elements, at most n > 0, from `element` on that decay like the first of them;
 * *decay is their weight decay. The rule takes each such run by itself; LAMB's trust ratio is that
 * of the run. */
size_t optimizer_decay_run(const struct optimizer *o, uint64_t element, size_t n, float *decay);
void optimizer_destroy(struct optimizer *o);
/* Applies a rule to one row, or to a contiguous run [first, first + n) of a row of `width` elements
 * (first > 0 only for element-wise rules: is_elementwise). value (width), slots (slots * width,
 * slot-major), grad (n, any alignment). Call optimizer_begin_row once per row and entry, before its
 * runs. */
void optimizer_begin_row(const struct optimizer *o, struct row_state *state);
void optimizer_apply(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *state, float *value,
                     float *slots, size_t width, size_t first, const float *grad, size_t n);
/* The same for only the elements first + offsets[i] (rising) of the row; grad (count) is their
 * pushed gradient. The other elements keep value and slots, as if no push had named them ("lazy").
 * Element-wise rules only. */
void optimizer_apply_sparse(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *state, float *value,
                            float *slots, size_t width, size_t first, const uint16_t *offsets, const float *grad, size_t count);
/* The step of rows that have taken steps - 1 steps before it; without an accumulator. */
struct optimizer_step optimizer_step_of(const struct optimizer *o, const struct optimizer_scalars *s, uint32_t steps);
/* runs may be applied as they arrive; else only whole rows */
bool optimizer_is_elementwise(const struct optimizer *o);
/* Applies to many embedding rows of equal width: rows[i] points to the value, slots follow at
 * rows[i] + width. grads (count, width), any alignment. Calls optimizer_begin_row and applies the
 * whole row for each, prefetching ahead. */
void optimizer_apply_rows(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *const *states,
                          float *const *rows, size_t width, const float *grads, size_t count);

/* Full decay (WEIR_DECAY_FULL) makes sparse rows behave like rows of a dense tensor. A push is a
 * step of the table. A row without a gradient in it takes the step too, with a gradient of zero:
 * its moments decay, L2 and weight decay act, and it moves. Such rows are not visited at the step.
 * A row catches up with the clock before its own push, and a copy of it when it is read. The rule
 * itself takes the steps between, so the bits are those of the dense loop. They use the clock's
 * present rate, not each step's own: with a schedule, results differ a little from the dense loop.
 * At most WEIR_CATCH_UP_STEPS_MAX steps are taken; by then moments are gone and values at rest. */
bool optimizer_is_full_decay(const struct optimizer *o);
/* The state of a row that is at the clock: one just assigned, or caught up. */
struct row_state optimizer_state_at(const struct optimizer_clock *clock);
void optimizer_catch_up(const struct optimizer *o, const struct optimizer_clock *clock, struct row_state *state, float *value,
                        float *slots, size_t width);

/* Learning rate at a step (counted from 0): lr * schedule, in double with libm. Never used in the
 * apply path. */
double schedule_lr(const weir_optimizer *o, uint64_t step);
weir_status schedule_check(const weir_schedule *s, weir_error *err) WEIR_MUST_CHECK;

#endif
