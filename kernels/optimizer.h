/* Update rules on rows: value first, then its optimizer slots, all fp32 and contiguous; plus two words per row that some rules
 * need. Deterministic on every machine: element-wise, no libm, no contraction, and where a row is reduced (LAMB, row-wise Adagrad) in a
 * fixed 16-lane order. Vectorised through a function table chosen once by the CPU's features; every variant gives the same bits.
 * Sources: ALGORITHMS in docs; each rule's file cites its paper and equation. */
#ifndef WEIR_OPTIMIZER_H
#define WEIR_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "weir/table.h"

/* Scalars of one application: computed where the entry is made (schedules use libm there), carried in the entry. */
struct optimizer_scalars {
	float lr;         /* after the schedule */
	float grad_scale; /* gradients are multiplied by this first (1/members of a step; 1 otherwise) */
	uint64_t element; /* of a dense table: the row's first */
};

/* Per-row state beside value and slots; all zero for a row that was never pushed. */
struct row_state {
	uint32_t
	    steps; /* applied to this row: its pushes, and with full decay also the steps without it. Adam's bias correction, windows */
	float accumulator; /* row-wise Adagrad; spare elsewhere */
};

/* Where a table is, in one partition. */
struct optimizer_clock {
	uint64_t steps; /* applied that brought rows of the table: pushes, or closed synchronous steps */
	float lr;       /* of the last of them, after the schedule */
};

/* What of a table's optimizer does not change from step to step. */
struct rule_constants {
	float momentum, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, initial, weight_decay, l1, l2, ftrl_beta;
	uint32_t window;
};

/* One step of a rule made out in numbers: all that rules/ need beside value, slots and gradient, and what a backend is given (update). */
struct optimizer_step {
	struct rule_constants k;
	weir_optimizer_kind kind;
	float lr, grad_scale;
	float correction1, correction2; /* Adam family: 1 / (1 - beta^t) */
	uint32_t steps;                 /* of the row, this one among them */
	float *accumulator;             /* row-wise Adagrad: the row's; of many rows, theirs */
};

/* fp32 numbers per element kept beside the value (0 to 2). */
uint32_t optimizer_slots(weir_optimizer_kind kind);
/* The first value of every slot, and those of the slots of a row of n elements: slots (slots * n). */
float optimizer_first_slot(const weir_optimizer *o);
void optimizer_init_slots(const weir_optimizer *o, float *slots, size_t n);
weir_status optimizer_check(const weir_optimizer *o, weir_error *err) WEIR_MUST_CHECK;

struct optimizer; /* a rule prepared for a table: function pointers and constants */
struct optimizer *optimizer_create(const weir_optimizer *spec, weir_error *err);
/* Of a dense table: weight decay leaves out the elements of the segments that say so. Before the first
 * step. E_MEMORY. */
weir_status optimizer_leave_out(struct optimizer *o, const weir_init_segment *segments, uint32_t count,
                                weir_error *err) WEIR_MUST_CHECK;
/* How many of the n > 0 elements from `element` on decay like the first of them; *decay: by how much. The
 * rule takes each such run by itself; LAMB's trust ratio is that of the run. */
size_t optimizer_decay_run(const struct optimizer *o, uint64_t element, size_t n, float *decay);
void optimizer_destroy(struct optimizer *o);
/* One row, or a contiguous run [first, first + n) of a row of `width` elements (first > 0 only for element-wise rules: is_elementwise).
 * value (width), slots (slots * width, slot-major), grad (n, any alignment). Call optimizer_begin_row once per row and entry, before its runs. */
void optimizer_begin_row(const struct optimizer *o, struct row_state *state);
void optimizer_apply(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *state, float *value,
                     float *slots, size_t width, size_t first, const float *grad, size_t n);
/* The same for the elements first + offsets[i] (rising) of the row alone, grad (count) having what was pushed for them: the others keep value and slots, as if
 * no push had named them ("lazy"). Element-wise rules only. */
void optimizer_apply_sparse(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *state, float *value,
                            float *slots, size_t width, size_t first, const uint16_t *offsets, const float *grad, size_t count);
/* The step of rows that have taken steps - 1 before it; without an accumulator. */
struct optimizer_step optimizer_step_of(const struct optimizer *o, const struct optimizer_scalars *s, uint32_t steps);
bool optimizer_is_elementwise(const struct optimizer *o); /* runs may be applied as they arrive; otherwise whole rows only */
/* Many embedding rows of equal width: rows[i] points to value, slots follow at rows[i] + width. grads (count, width), any alignment. Does
 * optimizer_begin_row and the whole row for each, prefetching ahead. */
void optimizer_apply_rows(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *const *states,
                          float *const *rows, size_t width, const float *grads, size_t count);

/* Full decay (WEIR_DECAY_FULL), which makes sparse rows behave as those of a dense tensor: a push is a step of the table, and a row that it leaves
 * out takes the step too, with a gradient of zero: its moments decay, L2 and weight decay act, and it moves. Rows are not visited for that. One
 * is brought to the clock before its own push, and in a copy where it is read; the steps in between are the rule itself, so that the bits are those of the
 * dense loop. They are taken at the rate of the clock, not each at its own: with a schedule that departs a little from the dense loop.
 * No more than WEIR_CATCH_UP_STEPS_MAX steps are taken; by then moments are gone and values at rest. */
bool optimizer_is_full_decay(const struct optimizer *o);
/* Of a row that is at the clock: one just assigned, or caught up. */
struct row_state optimizer_state_at(const struct optimizer_clock *clock);
void optimizer_catch_up(const struct optimizer *o, const struct optimizer_clock *clock, struct row_state *state, float *value,
                        float *slots, size_t width);

/* Learning rate at a step (counts from 0): lr * schedule, in double with libm; never in the apply path. */
double schedule_lr(const weir_optimizer *o, uint64_t step);
weir_status schedule_check(const weir_schedule *s, weir_error *err) WEIR_MUST_CHECK;

#endif
