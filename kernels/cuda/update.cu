/* Update rules on dense tensors, with the arithmetic of ../rules: the CPU's bits.
 *
 * Element-wise rules take four elements a thread. Each array is read once, and changed arrays are
 * written once: 12 bytes an element and 8 more for each slot (sgd 12, momentum 20, adam 28). LAMB
 * and row-wise Adagrad take a block a row, and make two passes over it, as the rate depends on the
 * whole row: 40 and 20 bytes. Their sums are also the CPU's: element i adds to lane i mod 16, in
 * order, and the lanes are added pairwise. All threads compute squares, a tile of them at a time,
 * and one thread per lane adds them up while the others work on the next tile. */
#include "kernels/cuda/launch.h"

#include "kernels/rules/adagrad.h"
#include "kernels/rules/adam.h"
#include "kernels/rules/average.h"
#include "kernels/rules/delayed_nesterov.h"
#include "kernels/rules/ftrl.h"
#include "kernels/rules/lamb.h"
#include "kernels/rules/lion.h"
#include "kernels/rules/sgd.h"

template <weir_optimizer_kind KIND> struct traits_of;
#define TRAITS(name, number, rule, slots_count, traits)                          \
	template <> struct traits_of<WEIR_OPT_##name> {                              \
		static constexpr unsigned slots = slots_count;                           \
		static constexpr bool whole_rows = ((traits)&WEIR_RULE_WHOLE_ROWS) != 0; \
	};
WEIR_OPTIMIZER_MAP(TRAITS)
#undef TRAITS

/* --- Element by element */

template <weir_optimizer_kind KIND>
static __device__ inline void element(const struct optimizer_step *s, float *value, float *slot0, float *slot1, float grad)
{
	if constexpr (KIND == WEIR_OPT_SGD)
		sgd_element(s, value, grad);
	else if constexpr (KIND == WEIR_OPT_MOMENTUM)
		momentum_element(s, value, slot0, grad);
	else if constexpr (KIND == WEIR_OPT_NESTEROV)
		nesterov_element(s, value, slot0, grad);
	else if constexpr (KIND == WEIR_OPT_ADAGRAD)
		adagrad_element(s, value, slot0, grad);
	else if constexpr (KIND == WEIR_OPT_ADAM)
		adam_element(s, value, slot0, slot1, grad);
	else if constexpr (KIND == WEIR_OPT_ADAMW)
		adamw_element(s, value, slot0, slot1, grad);
	else if constexpr (KIND == WEIR_OPT_LION)
		lion_element(s, value, slot0, grad);
	else if constexpr (KIND == WEIR_OPT_FTRL)
		ftrl_element(s, 1.0f / s->lr, value, slot0, slot1, grad);
	else if constexpr (KIND == WEIR_OPT_DELAYED_NESTEROV)
		delayed_nesterov_element(s, delayed_nesterov_ends_window(s), 1.0f / (float)s->k.window, value, slot0, slot1, grad);
	else {
		static_assert(KIND == WEIR_OPT_AVERAGE, "a rule that is not here");
		const enum average_place place = average_place(s);
		average_element(s, place, average_share(s, place), value, slot0, grad);
	}
}

template <weir_optimizer_kind KIND, int V>
static __global__ void elements_kernel(struct optimizer_step s, float *value, float *slots, const float *grad, size_t n)
{
	constexpr unsigned SLOTS = traits_of<KIND>::slots;
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	const size_t at = i / WEIR_CHUNK * WEIR_CHUNK, width = n - at < WEIR_CHUNK ? n - at : WEIR_CHUNK;
	float *const slot0 = slots + at * SLOTS + (i - at), *const slot1 = slot0 + width;
	const pack<V> g = load<V>(grad + i);
	pack<V> p = load<V>(value + i), a = {{0}}, b = {{0}};
	if constexpr (SLOTS > 0)
		a = load<V>(slot0);
	if constexpr (SLOTS > 1)
		b = load<V>(slot1);
	for (int k = 0; k < V; k++)
		element<KIND>(&s, &p.v[k], &a.v[k], &b.v[k], g.v[k]);
	store<V>(value + i, p);
	if constexpr (SLOTS > 0)
		store<V>(slot0, a);
	if constexpr (SLOTS > 1)
		store<V>(slot1, b);
}

/* If a last row's length is not a multiple of four, its second slot is unaligned: that row is
 * updated element by element. */
template <weir_optimizer_kind KIND>
static void run_elements(struct cuda_backend *c, const struct optimizer_step *s, float *value, float *slots, const float *grad,
                         size_t n)
{
	const bool aligned = pack_width(0, ADDRESS(value) | ADDRESS(slots) | ADDRESS(grad)) == 4;
	const size_t fours = !aligned ? 0 : n % 4 == 0 ? n : n / WEIR_CHUNK * WEIR_CHUNK, rest = n - fours;
	LAUNCH(c, (elements_kernel<KIND, 4>), blocks_for(c, fours / 4), CUDA_THREADS, *s, value, slots, grad, fours);
	if (traits_of<KIND>::slots > 0)
		slots += fours * traits_of<KIND>::slots;
	LAUNCH(c, (elements_kernel<KIND, 1>), blocks_for(c, rest), CUDA_THREADS, *s, value + fours, slots, grad + fours, rest);
}

/* --- Row by row */

#define LANES 16u /* of a sum */
#define EACH  4u  /* elements of a thread in a tile */
#define TILE  (EACH * CUDA_THREADS)
#define PITCH (TILE + LANES) /* the lanes of two sums lie in different banks */

template <weir_optimizer_kind KIND> struct row_rule;

template <> struct row_rule<WEIR_OPT_LAMB> {
	static constexpr unsigned sums = 2; /* of p^2 and r^2 */
	static __device__ inline void observe(const struct optimizer_step *s, float p, float *m, float *v, float grad, float *squares)
	{
		adam_moments(s, m, v, rule_gradient(s, grad, p));
		const float r = lamb_direction(s, *m, *v, p);
		squares[0] = p * p;
		squares[1] = r * r;
	}
	static __device__ inline float rate(const struct optimizer_step *s, size_t row, const float *sum, size_t width)
	{
		(void)row, (void)width;
		return lamb_rate(s, sum[0], sum[1]);
	}
	static __device__ inline float direction(const struct optimizer_step *s, float p, float m, float v, float grad)
	{
		(void)grad;
		return lamb_direction(s, m, v, p);
	}
};

template <> struct row_rule<WEIR_OPT_ROW_ADAGRAD> {
	static constexpr unsigned sums = 1;
	static __device__ inline void observe(const struct optimizer_step *s, float p, float *, float *, float grad, float *squares)
	{
		const float g = rule_gradient(s, grad, p);
		squares[0] = g * g;
	}
	static __device__ inline float rate(const struct optimizer_step *s, size_t row, const float *sum, size_t width)
	{
		return row_adagrad_rate(s, &s->accumulator[row], sum[0], width);
	}
	static __device__ inline float direction(const struct optimizer_step *s, float p, float, float, float grad)
	{
		return rule_gradient(s, grad, p);
	}
};

/* Adds a lane's share of a tile. */
static __device__ inline float add_lane(float sum, const float *squares)
{
#pragma unroll 16
	for (unsigned j = 0; j < TILE; j += LANES)
		sum += squares[j];
	return sum;
}

/* Block: a row. */
template <weir_optimizer_kind KIND>
static __global__ void __launch_bounds__(CUDA_THREADS)
    rows_kernel(struct optimizer_step s, float *value, float *slots, const float *grad, size_t n)
{
	typedef struct row_rule<KIND> rule;
	constexpr unsigned SLOTS = traits_of<KIND>::slots;
	/* in turn: one is filled while the other is added up */
	SHARED(float, squares, [2][rule::sums * PITCH]);
	SHARED(float, rate, [1]);
	const size_t row = blockIdx.x, at = row * WEIR_CHUNK, width = n - at < WEIR_CHUNK ? n - at : WEIR_CHUNK;
	float *const slot0 = slots + at * SLOTS, *const slot1 = slot0 + width;
	const unsigned which = threadIdx.x / LANES, lane = threadIdx.x % LANES;
	float sum = 0;
	unsigned turn = 0;
	value += at;
	grad += at;
	for (size_t tile = 0; tile < width; tile += TILE, turn ^= 1) {
		/* all loads are issued before the first is used */
		float p[EACH], g[EACH], m[EACH] = {0}, v[EACH] = {0};
#pragma unroll
		for (unsigned k = 0; k < EACH; k++) {
			const size_t i = tile + k * CUDA_THREADS + threadIdx.x;
			if (i >= width)
				continue;
			p[k] = value[i];
			g[k] = grad[i];
			if (SLOTS > 0) {
				m[k] = slot0[i];
				v[k] = slot1[i];
			}
		}
#pragma unroll
		for (unsigned k = 0; k < EACH; k++) {
			const unsigned j = k * CUDA_THREADS + threadIdx.x;
			const size_t i = tile + j;
			float of[2] = {0, 0}; /* beyond the row's end zeros are added, which change no sum */
			if (i < width) {
				rule::observe(&s, p[k], &m[k], &v[k], g[k], of);
				if (SLOTS > 0) {
					slot0[i] = m[k];
					slot1[i] = v[k];
				}
			}
			for (unsigned q = 0; q < rule::sums; q++)
				squares[turn][q * PITCH + j] = of[q];
		}
		__syncthreads();
		if (which < rule::sums)
			sum = add_lane(sum, &squares[turn][which * PITCH + lane]);
	}
	if (threadIdx.x < CUDA_LANES) {
		sum = lanes_sum(sum, LANES);
		const float both[2] = {sum, __shfl_sync(ALL_LANES, sum, (int)LANES)};
		if (threadIdx.x == 0)
			rate[0] = rule::rate(&s, row, both, width);
	}
	__syncthreads();
	const float by = rate[0];
#pragma unroll 4
	for (size_t i = threadIdx.x; i < width; i += CUDA_THREADS) {
		const float p = value[i], m = SLOTS > 0 ? slot0[i] : 0, v = SLOTS > 0 ? slot1[i] : 0;
		value[i] = p - by * rule::direction(&s, p, m, v, grad[i]);
	}
}

template <weir_optimizer_kind KIND>
static void run(struct cuda_backend *c, const struct optimizer_step *s, float *value, float *slots, const float *grad, size_t n)
{
	if constexpr (traits_of<KIND>::whole_rows)
		LAUNCH(c, rows_kernel<KIND>, dim3((unsigned)weir_chunks(n)), CUDA_THREADS, *s, value, slots, grad, n);
	else
		run_elements<KIND>(c, s, value, slots, grad, n);
}

void cuda_update(struct backend *b, const struct optimizer_step *step, float *value, float *slots, const float *grad, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (step->kind == WEIR_OPT_FTRL && ftrl_does_nothing(step))
		return;
	switch (step->kind) {
#define RUN(name, number, rule, slots_count, traits)          \
	case WEIR_OPT_##name:                                     \
		run<WEIR_OPT_##name>(c, step, value, slots, grad, n); \
		break;
		WEIR_OPTIMIZER_MAP(RUN)
#undef RUN
	}
}
