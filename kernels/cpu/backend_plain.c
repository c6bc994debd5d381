/* The plain backend (backend.h): some of the CPU's ops, in the best instruction set, without
 * threads or a matrix library. */
#include "kernels/bits.h"
#include "kernels/cpu/cpu.h"

static void plain_destroy(struct backend *b)
{
	(void)b; /* the only instance, never freed */
}

static void plain_fill(struct backend *b, float *x, float value, size_t n)
{
	(void)b;
	for (size_t i = 0; i < n; i++)
		x[i] = value;
}

/* The same sum as cpu_sum_squares. */
static void plain_sum_squares(struct backend *b, double *out, const float *x, size_t n)
{
	const struct vector_ops *ops = vector_ops_best();
	const size_t block = cpu_reduce_block(n);
	double sum = 0;
	(void)b;
	for (size_t at = 0; at < n; at += block)
		sum += ops->sum_squares(x + at, n - at < block ? n - at : block);
	*out = sum;
}

static bool plain_all_finite(struct backend *b, const float *x, size_t n)
{
	(void)b;
	return codec_all_finite(x, n);
}

static void plain_zero_not_finite(struct backend *b, float *x, size_t n)
{
	(void)b;
	for (size_t i = 0; i < n; i++)
		x[i] = float_of(choose((bits_of(x[i]) & ABS_MASK) < INFINITY_BITS, bits_of(x[i]), 0));
}

static const struct backend_ops plain_ops = {.name = "plain",
                                             .host_memory = true,
                                             .destroy = plain_destroy,
                                             .sync = cpu_sync,
                                             .info = cpu_info,
                                             .buffer_alloc = cpu_buffer_alloc,
                                             .buffer_free = cpu_buffer_free,
                                             .host_alloc = cpu_buffer_alloc,
                                             .host_free = cpu_buffer_free,
                                             .to_device = cpu_to_device,
                                             .to_host = cpu_to_host,
                                             .to_host_later = cpu_to_host,
                                             .choose_stream = cpu_choose_stream,
                                             .sync_stream = cpu_sync,
                                             .set_mark = cpu_set_mark,
                                             .free_mark = cpu_set_mark,
                                             .follow_mark = cpu_follow_mark,
                                             .await_mark = cpu_await_mark,
                                             .replay = cpu_replay,
                                             .forget_replays = cpu_forget_replays,
                                             .fill = plain_fill,
                                             .sum_squares = plain_sum_squares,
                                             .all_finite = plain_all_finite,
                                             .zero_not_finite = plain_zero_not_finite,
#define PLAIN_ENTRY(op) .op = cpu_##op,
                                             CPU_COMPRESSION_OPS(PLAIN_ENTRY)
#undef PLAIN_ENTRY
};

struct backend *backend_plain(void)
{
	static struct backend plain = {&plain_ops};
	return &plain;
}
