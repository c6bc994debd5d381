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
	float lr;        /* after the schedule */
	float grad_scale; /* gradients are multiplied by this first (1/members of a step; 1 otherwise) */
};

/* Per-row state beside value and slots; all zero for a row that was never pushed. */
struct row_state {
	uint32_t steps;     /* pushes applied to this row: Adam's bias correction, windows */
	float accumulator;  /* row-wise Adagrad; spare elsewhere */
};

/* fp32 numbers per element kept beside the value (0 to 2). */
uint32_t optimizer_slots(weir_optimizer_kind kind);
/* The first values of the slots of a row of n elements: slots (slots * n). */
void optimizer_init_slots(const weir_optimizer *o, float *slots, size_t n);
weir_status optimizer_check(const weir_optimizer *o, weir_error *err) WEIR_MUST_CHECK;

struct optimizer; /* a rule prepared for a table: function pointers and constants */
struct optimizer *optimizer_create(const weir_optimizer *spec, weir_error *err);
void optimizer_destroy(struct optimizer *o);
/* One row, or a contiguous run [first, first + n) of a row of `width` elements (first > 0 only for element-wise rules: is_elementwise).
 * value (width), slots (slots * width, slot-major), grad (n, any alignment). Call optimizer_begin_row once per row and entry, before its runs. */
void optimizer_begin_row(const struct optimizer *o, struct row_state *state);
void optimizer_apply(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *state, float *value, float *slots,
                     size_t width, size_t first, const float *grad, size_t n);
bool optimizer_is_elementwise(const struct optimizer *o); /* runs may be applied as they arrive; otherwise whole rows only */
/* Many embedding rows of equal width: rows[i] points to value, slots follow at rows[i] + width. grads (count, width), any alignment. Does
 * optimizer_begin_row and the whole row for each, prefetching ahead. */
void optimizer_apply_rows(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *const *states, float *const *rows,
                          size_t width, const float *grads, size_t count);

/* Learning rate at a step (counts from 0): lr * schedule, in double with libm; never in the apply path. */
double schedule_lr(const weir_optimizer *o, uint64_t step);
weir_status schedule_check(const weir_schedule *s, weir_error *err) WEIR_MUST_CHECK;

#endif
