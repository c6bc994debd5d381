/* A table's prepared update rule: constants, bias corrections, and the rule in this CPU's variant.
 * The rules are in rules/. */
#include "kernels/optimizer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "kernels/rules/sgd.h"
#include "kernels/vector.h"

/* Bias corrections of the first steps are stored, later ones computed by the same function: equal
 * bits. */
#define CORRECTIONS_KEPT 1024
#define CACHE_LINE       64
#define PREFETCH_LINES   24 /* cache lines in flight ahead of the present row */
#define PREFETCH_ROWS    16
/* elements of a row whose cache lines are in flight, for value and each slot */
#define SPARSE_AHEAD 16
#define SPARSE_BLOCK 256
/* elements that take all their steps together, with values and moments in the first-level cache */
#define CATCH_UP_BLOCK 64

struct optimizer {
	rule_fn rule;
	struct rule_constants k;
	weir_optimizer_kind kind;
	bool full_decay;
	uint32_t slots;
	struct correction {
		float first, second; /* 1 / (1 - beta^t) */
	} * corrections;         /* (CORRECTIONS_KEPT), Adam family only; [0] is unused */
	/* (edges_count) elements, rising: decay ends and begins again at these, in turn */
	uint64_t *edges;
	size_t edges_count;
};

float optimizer_first_slot(const weir_optimizer *o)
{
	return optimizer_has(o->kind, WEIR_RULE_INITIAL_SLOTS) ? o->initial : 0;
}

void optimizer_init_slots(const weir_optimizer *o, float *slots, size_t n)
{
	const float first = optimizer_first_slot(o);
	const size_t total = n * optimizer_slots(o->kind);
	for (size_t i = 0; i < total; i++)
		slots[i] = first;
}

/* --- Checks */

struct range {
	const char *name;
	float value;
	bool least_open;    /* the least value itself is not allowed */
	float least, below; /* least <= value < below */
};

static weir_status check_range(const struct range *r, weir_error *err)
{
	if (isfinite(r->value) && (r->least_open ? r->value > r->least : r->value >= r->least) && r->value < r->below)
		return WEIR_OK;
	if (isinf(r->below))
		return weir_fail(err, WEIR_E_INVALID, "optimizer: %s is %g; it must be finite and %s %g", r->name, (double)r->value,
		                 r->least_open ? "above" : "at least", (double)r->least);
	return weir_fail(err, WEIR_E_INVALID, "optimizer: %s is %g; it must be from %g to below %g", r->name, (double)r->value,
	                 (double)r->least, (double)r->below);
}

weir_status optimizer_check(const weir_optimizer *o, weir_error *err)
{
	if ((unsigned)o->kind >= WEIR_OPTIMIZERS)
		return weir_fail(err, WEIR_E_INVALID, "optimizer: there is no kind %d", (int)o->kind);
	const bool betas = optimizer_has(o->kind, WEIR_RULE_BETAS);
	const struct range ranges[] = {
	    {"lr", o->lr, optimizer_has(o->kind, WEIR_RULE_DIVIDES_BY_LR), 0, INFINITY},
	    {"momentum", o->momentum, false, 0, 1},
	    {"beta1", betas ? o->beta1 : 0, false, 0, 1},
	    {"beta2", betas ? o->beta2 : 0, false, 0, 1},
	    {"eps", o->eps, optimizer_has(o->kind, WEIR_RULE_DIVIDES_BY_EPS), 0, INFINITY},
	    {"initial", o->initial, false, 0, INFINITY},
	    {"weight_decay", o->weight_decay, false, 0, INFINITY},
	    {"l1", o->l1, false, 0, INFINITY},
	    {"l2", o->l2, false, 0, INFINITY},
	    {"ftrl_beta", o->ftrl_beta, false, 0, INFINITY},
	};
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		weir_status status = check_range(&ranges[i], err);
		if (status != WEIR_OK)
			return status;
	}
	if (optimizer_has(o->kind, WEIR_RULE_WINDOW) && o->window == 0)
		return weir_fail(err, WEIR_E_INVALID, "optimizer: this kind needs a window of at least 1 push");
	if (o->decay == WEIR_DECAY_FULL && !optimizer_has(o->kind, WEIR_RULE_FULL_DECAY))
		return weir_fail(err, WEIR_E_INVALID, "optimizer: full decay is for adam and adamw");
	return schedule_check(&o->schedule, err);
}

/* --- Preparation */

/* 1 / (1 - beta^t) for t >= 1: by squaring, in double, no libm. */
static float bias_correction(float beta, uint32_t t)
{
	double power = 1, square = beta;
	for (; t != 0; t >>= 1) {
		if (t & 1)
			power *= square;
		square *= square;
	}
	return (float)(1 / (1 - power));
}

static struct correction corrections_at(const struct rule_constants *k, uint32_t t)
{
	return (struct correction){bias_correction(k->beta1, t), bias_correction(k->beta2, t)};
}

struct optimizer *optimizer_create_with(const struct vector_ops *ops, const weir_optimizer *spec, weir_error *err)
{
	if (optimizer_check(spec, err) != WEIR_OK)
		return NULL;
	struct optimizer *o = calloc(1, sizeof *o);
	if (!o)
		goto no_memory;
	o->rule = ops->rules[spec->kind];
	o->kind = spec->kind;
	o->full_decay = spec->decay == WEIR_DECAY_FULL;
	o->slots = optimizer_slots(spec->kind);
	o->k = (struct rule_constants){
	    .momentum = spec->momentum,
	    .beta1 = spec->beta1,
	    .beta2 = spec->beta2,
	    .one_minus_beta1 = (float)(1 - (double)spec->beta1),
	    .one_minus_beta2 = (float)(1 - (double)spec->beta2),
	    .eps = spec->eps,
	    .initial = spec->initial,
	    .weight_decay = spec->weight_decay,
	    .l1 = spec->l1,
	    .l2 = spec->l2,
	    .ftrl_beta = spec->ftrl_beta,
	    .window = spec->window,
	};
	if (optimizer_has(spec->kind, WEIR_RULE_BIAS)) {
		o->corrections = calloc(CORRECTIONS_KEPT, sizeof *o->corrections);
		if (!o->corrections)
			goto no_memory;
		for (uint32_t t = 1; t < CORRECTIONS_KEPT; t++)
			o->corrections[t] = corrections_at(&o->k, t);
	}
	return o;
no_memory:
	optimizer_destroy(o);
	weir_fail(err, WEIR_E_MEMORY, "optimizer: out of memory");
	return NULL;
}

struct optimizer *optimizer_create(const weir_optimizer *spec, weir_error *err)
{
	return optimizer_create_with(vector_ops_best(), spec, err);
}

void optimizer_destroy(struct optimizer *o)
{
	if (!o)
		return;
	free(o->corrections);
	free(o->edges);
	free(o);
}

/* --- Exemptions from weight decay */

weir_status optimizer_leave_out(struct optimizer *o, const weir_init_segment *segments, uint32_t count, weir_error *err)
{
	if (!optimizer_has(o->kind, WEIR_RULE_WEIGHT_DECAY) || o->k.weight_decay == 0)
		return WEIR_OK;
	free(o->edges);
	o->edges_count = 0;
	o->edges = calloc(count + 1u, sizeof *o->edges);
	if (!o->edges)
		return weir_fail(err, WEIR_E_MEMORY, "optimizer: out of memory");
	uint64_t at = 0;
	bool decays = true;
	for (uint32_t i = 0; i < count; at += segments[i].elements, i++)
		if (segments[i].undecayed == decays) {
			o->edges[o->edges_count++] = at;
			decays = !decays;
		}
	return WEIR_OK;
}

size_t optimizer_decay_run(const struct optimizer *o, uint64_t element, size_t n, float *decay)
{
	size_t low = 0, high = o->edges_count; /* the number of edges at the element or before it */
	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		if (o->edges[mid] <= element)
			low = mid + 1;
		else
			high = mid;
	}
	*decay = low % 2 ? 0 : o->k.weight_decay;
	return low < o->edges_count && o->edges[low] - element < n ? (size_t)(o->edges[low] - element) : n;
}

bool optimizer_is_elementwise(const struct optimizer *o)
{
	return !optimizer_has(o->kind, WEIR_RULE_WHOLE_ROWS);
}

/* --- Application */

/* Sets the fields that depend on the row's number of steps, including this one. */
static inline void set_steps(const struct optimizer *o, struct optimizer_step *step, uint32_t steps)
{
	step->steps = steps;
	if (!o->corrections)
		return;
	const struct correction c = steps < CORRECTIONS_KEPT ? o->corrections[steps] : corrections_at(&o->k, steps);
	step->correction1 = c.first;
	step->correction2 = c.second;
}

static inline void set_row(const struct optimizer *o, struct optimizer_step *step, struct row_state *state)
{
	set_steps(o, step, state->steps);
	step->accumulator = &state->accumulator;
}

static inline struct optimizer_step step_without_row(const struct optimizer *o, const struct optimizer_scalars *s)
{
	return (struct optimizer_step){.k = o->k, .kind = o->kind, .lr = s->lr, .grad_scale = s->grad_scale};
}

struct optimizer_step optimizer_step_of(const struct optimizer *o, const struct optimizer_scalars *s, uint32_t steps)
{
	struct optimizer_step step = step_without_row(o, s);
	set_steps(o, &step, steps);
	return step;
}

void optimizer_begin_row(const struct optimizer *o, struct row_state *state)
{
	if (state->steps == 0 && optimizer_has(o->kind, WEIR_RULE_INITIAL_ROW))
		state->accumulator = o->k.initial;
	if (state->steps != UINT32_MAX)
		state->steps++;
}

static void apply_run(const struct optimizer *o, const struct optimizer_step *step, float *value, float *slots, size_t width,
                      size_t first, const float *grad, size_t n)
{
	float *slot0 = o->slots > 0 ? slots + first : NULL, *slot1 = o->slots > 1 ? slots + width + first : NULL;
	o->rule(step, value + first, slot0, slot1, (const wire_float *)grad, n);
}

void optimizer_apply(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *state, float *value,
                     float *slots, size_t width, size_t first, const float *grad, size_t n)
{
	assert(state->steps > 0); /* optimizer_begin_row came first */
	assert(first + n <= width && (optimizer_is_elementwise(o) || n == width));
	struct optimizer_step step = step_without_row(o, s);
	set_row(o, &step, state);
	for (size_t at = 0, run; at < n; at += run) {
		run = optimizer_decay_run(o, s->element + first + at, n - at, &step.k.weight_decay);
		apply_run(o, &step, value, slots, width, first + at, grad + at, run);
	}
}

/* --- Some of a row's elements */

/* Each element in memory is on its own cache line: prefetches those of later elements. */
static inline void prefetch_ahead(const float *x, const uint16_t *offsets, size_t i, size_t count)
{
	if (i + SPARSE_AHEAD < count)
		__builtin_prefetch(&x[offsets[i + SPARSE_AHEAD]], 1);
}

static void sgd_sparse(const struct optimizer_step *s, float *value, const uint16_t *offsets, const wire_float *grad,
                       size_t count)
{
	const struct optimizer_step local = *s; /* a copy that the stores below cannot change */
	for (size_t i = 0; i < count; i++) {
		prefetch_ahead(value, offsets, i, count);
		sgd_element(&local, &value[offsets[i]], grad[i]);
	}
}

static void gather(float *block, const float *x, const uint16_t *offsets, size_t count, size_t left)
{
	for (size_t i = 0; i < count; i++) {
		prefetch_ahead(x, offsets, i, left);
		block[i] = x[offsets[i]];
	}
}

static void scatter(float *x, const float *block, const uint16_t *offsets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		x[offsets[i]] = block[i];
}

void optimizer_apply_sparse(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *state, float *value,
                            float *slots, size_t width, size_t first, const uint16_t *offsets, const float *grad, size_t count)
{
	assert(state->steps > 0 && optimizer_is_elementwise(o));
	const wire_float *pushed = (const wire_float *)grad;
	float block[1 + WEIR_OPTIMIZER_SLOTS_MAX][SPARSE_BLOCK], *at[1 + WEIR_OPTIMIZER_SLOTS_MAX];
	if (count == 0)
		return;
	assert(first + offsets[count - 1] < width);
	struct optimizer_step step = step_without_row(o, s);
	set_row(o, &step, state);
	if (o->kind == WEIR_OPT_SGD) {
		sgd_sparse(&step, value + first, offsets, pushed, count);
		return;
	}
	for (uint32_t p = 0; p <= o->slots; p++)
		at[p] = p == 0 ? value + first : slots + (p - 1) * width + first;
	for (size_t done = 0, n; done < count; done += n) {
		const size_t run =
		    optimizer_decay_run(o, s->element + first + offsets[done], width - first - offsets[done], &step.k.weight_decay);
		n = count - done < SPARSE_BLOCK ? count - done : SPARSE_BLOCK;
		while ((size_t)(offsets[done + n - 1] - offsets[done]) >= run)
			n--;
		for (uint32_t p = 0; p <= o->slots; p++)
			gather(block[p], at[p], offsets + done, n, count - done);
		o->rule(&step, block[0], block[1], block[2], pushed + done, n);
		for (uint32_t p = 0; p <= o->slots; p++)
			scatter(at[p], block[p], offsets + done, n);
	}
}

/* --- Many rows */

void optimizer_apply_rows(const struct optimizer *o, const struct optimizer_scalars *s, struct row_state *const *states,
                          float *const *rows, size_t width, const float *grads, size_t count)
{
	const size_t row_bytes = (1 + o->slots) * width * sizeof(float), row_lines = row_bytes / CACHE_LINE + 1;
	size_t ahead = PREFETCH_LINES / row_lines;
	ahead = ahead < 1 ? 1 : ahead > PREFETCH_ROWS ? PREFETCH_ROWS : ahead;
	const wire_float *grad = (const wire_float *)grads;
	struct optimizer_step step = step_without_row(o, s);
	for (size_t i = 0; i < count; i++, grad += width) {
		if (i + ahead < count) {
			const char *next = (const char *)rows[i + ahead];
			__builtin_prefetch(states[i + ahead], 1);
			for (size_t at = 0; at < row_bytes && at < PREFETCH_LINES * CACHE_LINE; at += CACHE_LINE)
				__builtin_prefetch(next + at, 1);
		}
		optimizer_begin_row(o, states[i]);
		set_row(o, &step, states[i]);
		float *slot0 = rows[i] + width;
		o->rule(&step, rows[i], slot0, slot0 + width, grad, width);
	}
}

/* --- Full decay */

bool optimizer_is_full_decay(const struct optimizer *o)
{
	return o->full_decay;
}

struct row_state optimizer_state_at(const struct optimizer_clock *clock)
{
	return (struct row_state){.steps = clock->steps < UINT32_MAX ? (uint32_t)clock->steps : UINT32_MAX};
}

void optimizer_catch_up(const struct optimizer *o, const struct optimizer_clock *clock, struct row_state *state, float *value,
                        float *slots, size_t width)
{
	static const float none[CATCH_UP_BLOCK]; /* the gradient of a step without the row */
	const struct optimizer_scalars scalars = {.lr = clock->lr, .grad_scale = 1};
	assert(o->full_decay);
	const uint32_t now = optimizer_state_at(clock).steps;
	if (state->steps >= now)
		return;
	struct optimizer_step step = step_without_row(o, &scalars);
	const uint32_t behind = now - state->steps, taken = behind < WEIR_CATCH_UP_STEPS_MAX ? behind : WEIR_CATCH_UP_STEPS_MAX;
	for (size_t first = 0; first < width; first += CATCH_UP_BLOCK) {
		const size_t n = width - first < CATCH_UP_BLOCK ? width - first : CATCH_UP_BLOCK;
		struct row_state at = *state;
		for (uint32_t i = 0; i < taken; i++) {
			optimizer_begin_row(o, &at);
			set_row(o, &step, &at);
			apply_run(o, &step, value, slots, width, first, none, n);
		}
	}
	state->steps = now;
}
