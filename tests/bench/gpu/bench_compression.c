/* Codecs and top-k. The bytes per element are those that must move. With error feedback: the
 * gradient read, the residual read and written, 12 bytes. With a velocity (DGC): that too, 20.
 * Exact selection in two passes: 16, and the elements sent. A codec's codes count: int8 with
 * feedback moves 13. Codes of top-k do not: 1 % of the elements is at most .06 bytes per element.
 * Each call of a measurement has its own fresh gradient and residual. */
#include <stdlib.h>

#include "kernels/book.h"
#include "tests/bench/gpu/bench_gpu.h"

#define SETS_ELEMENTS  ((size_t)256 << 20) /* all sets together, if each has at most half of them */
#define SETS_MAX       16
#define ONE_IN         100 /* one element of 100 is sent */
#define MOMENTUM       0.9f
#define FEEDBACK_BYTES 12.0
#define DGC_BYTES      20.0
#define EXACT_BYTES    16.4

struct rows {
	struct gpu_bench *g;
	size_t n;
	unsigned sets;
	float *pristine; /* (n): initial residuals and velocities */
	float *grad[SETS_MAX], *residual[SETS_MAX], *velocity[SETS_MAX];
	uint8_t *out;              /* room for any records or codes */
	uint32_t *ends, *selected; /* (tiles) */
	float threshold, threshold_dgc;
};

/* A way to encode. */
struct way {
	struct rows *r;
	struct coding coding;
	weir_values values;
};

static size_t room_for(size_t n)
{
	const size_t records = codec_tiles(n) * topk_record_max(CODEC_TILE, WEIR_VALUES_FP32),
	             codes = codec_bytes(WEIR_CODEC_BF16, n);
	return records > codes ? records : codes;
}

static bool rows_open(struct rows *r, struct gpu_bench *g, size_t n)
{
	const size_t most = g->quick ? 2 : SETS_ELEMENTS / n, tiles = codec_tiles(n);
	bool whole = true;
	*r = (struct rows){.g = g, .n = n, .sets = most < 2 ? 2 : most > SETS_MAX ? SETS_MAX : (unsigned)most};
	r->pristine = gpu_normal(g, n, 2);
	for (unsigned i = 0; i < r->sets; i++) {
		r->grad[i] = gpu_normal(g, n, 3 + i);
		r->residual[i] = gpu_bytes(g, n * sizeof(float));
		r->velocity[i] = gpu_bytes(g, n * sizeof(float));
		whole &= r->grad[i] != NULL && r->residual[i] != NULL && r->velocity[i] != NULL;
	}
	r->out = gpu_bytes(g, room_for(n));
	r->ends = gpu_bytes(g, tiles * sizeof *r->ends);
	r->selected = gpu_bytes(g, tiles * sizeof *r->selected);
	return whole && r->pristine != NULL && r->out != NULL && r->ends != NULL && r->selected != NULL;
}

static void rows_close(struct rows *r)
{
	gpu_free(r->g, r->pristine);
	for (unsigned i = 0; i < r->sets; i++) {
		gpu_free(r->g, r->grad[i]);
		gpu_free(r->g, r->residual[i]);
		gpu_free(r->g, r->velocity[i]);
	}
	gpu_free(r->g, r->out);
	gpu_free(r->g, r->ends);
	gpu_free(r->g, r->selected);
}

static void restore(void *arg)
{
	const struct rows *r = ((struct way *)arg)->r;
	for (unsigned i = 0; i < r->sets; i++) {
		r->g->b->ops->copy(r->g->b, r->residual[i], r->pristine, r->n);
		r->g->b->ops->copy(r->g->b, r->velocity[i], r->pristine, r->n);
	}
}

static struct topk_row row_of(const struct rows *r, unsigned call, bool dgc)
{
	return (struct topk_row){.grad = r->grad[call],
	                         .residual = r->residual[call],
	                         .momentum = {.velocity = dgc ? r->velocity[call] : NULL, .factor = MOMENTUM},
	                         .scale = 1,
	                         .n = r->n};
}

/* --- Subjects */

static void run_topk(void *arg, unsigned call)
{
	const struct way *w = arg;
	const struct topk_row row = row_of(w->r, call, false);
	w->r->g->b->ops->topk_encode(w->r->g->b, &row, w->r->threshold, w->values, w->r->out, w->r->ends, w->r->selected);
}

static void run_dgc(void *arg, unsigned call)
{
	const struct way *w = arg;
	const struct topk_row row = row_of(w->r, call, true);
	w->r->g->b->ops->topk_encode(w->r->g->b, &row, w->r->threshold_dgc, w->values, w->r->out, w->r->ends, w->r->selected);
}

static void run_exact(void *arg, unsigned call)
{
	const struct way *w = arg;
	struct backend *b = w->r->g->b;
	struct topk_row row = row_of(w->r, call, false);
	float threshold = w->r->threshold;
	weir_error err = {0}; /* the next sync reports a failure */
	b->ops->topk_accumulate(b, &row);
	if (b->ops->topk_threshold(b, row.residual, row.n, row.n / ONE_IN, &threshold, &err) != WEIR_OK)
		return;
	row.grad = NULL;
	b->ops->topk_encode(b, &row, threshold, w->values, w->r->out, w->r->ends, w->r->selected);
}

static void run_topk_decode(void *arg, unsigned call)
{
	const struct way *w = arg;
	w->r->g->b->ops->topk_decode(w->r->g->b, w->r->out, w->r->ends, w->r->n, w->values, w->r->residual[call]);
}

static void run_feedback(void *arg, unsigned call)
{
	const struct way *w = arg;
	w->r->g->b->ops->encode(w->r->g->b, &w->coding, w->r->grad[call], w->r->residual[call], w->r->n, w->r->out);
}

static void run_encode(void *arg, unsigned call)
{
	const struct way *w = arg;
	w->r->g->b->ops->encode(w->r->g->b, &w->coding, w->r->grad[call], NULL, w->r->n, w->r->out);
}

static void run_decode(void *arg, unsigned call)
{
	const struct way *w = arg;
	w->r->g->b->ops->decode(w->r->g->b, &w->coding, w->r->out, w->r->n, w->r->residual[call]);
}

static bool measure(struct way *w, const char *name, double bytes_each, void (*run)(void *, unsigned), void (*reset)(void *))
{
	const struct gpu_subject s = {.name = name,
	                              .n = w->r->n,
	                              .bytes = bytes_each * (double)w->r->n,
	                              .run = run,
	                              .reset = reset,
	                              .arg = w,
	                              .calls_max = w->r->sets};
	return gpu_measure(w->r->g, &s);
}

/* --- Thresholds, as an earlier step leaves them */

static bool find_threshold(struct rows *r, bool dgc, float *out)
{
	struct backend *b = r->g->b;
	struct way w = {.r = r};
	weir_error err = {0};
	restore(&w);
	const struct topk_row row = row_of(r, 0, dgc);
	b->ops->topk_accumulate(b, &row);
	if (b->ops->topk_threshold(b, row.residual, r->n, r->n / ONE_IN, out, &err) == WEIR_OK)
		return true;
	printf("%-34s %11zu failed: %s\n", "exact threshold", r->n, err.text);
	return false;
}

/* Prints how much the last call sent. */
static void tell_density(const struct rows *r)
{
	const struct backend_ops *ops = r->g->b->ops;
	const size_t tiles = codec_tiles(r->n);
	uint32_t *selected = malloc(tiles * sizeof *selected), bytes = 0;
	double all = 0;
	if (selected == NULL)
		return;
	ops->to_host(r->g->b, selected, r->selected, tiles * sizeof *selected);
	ops->to_host(r->g->b, &bytes, r->ends + tiles - 1, sizeof bytes);
	for (size_t t = 0; t < tiles; t++)
		all += selected[t];
	printf("%-34s %.3f %% of the elements, %.2f bits each\n", "  sent:", 100 * all / (double)r->n, 8 * bytes / all);
	free(selected);
}

/* --- The groups */

static bool bench_topk(struct rows *r)
{
	static const char *const names[] = {"top-k 1 % fp32", "top-k 1 % bf16", "top-k 1 % int8", "top-k 1 % log4", "top-k 1 % int2"};
	struct way w = {.r = r};
	bool ok = find_threshold(r, false, &r->threshold) && find_threshold(r, true, &r->threshold_dgc);
	for (int v = WEIR_VALUES_FP32; v < WEIR_VALUES && ok; v++) {
		w.values = (weir_values)v;
		ok = measure(&w, names[v], FEEDBACK_BYTES, run_topk, restore);
		tell_density(r);
	}
	w.values = WEIR_VALUES_INT8;
	ok = ok && measure(&w, "top-k 1 % int8, DGC", DGC_BYTES, run_dgc, restore);
	ok = ok && measure(&w, "top-k 1 % int8, exact", EXACT_BYTES, run_exact, restore);
	restore(&w);
	run_topk(&w, 0);
	return ok && measure(&w, "top-k 1 % int8 decoded", sizeof(float), run_topk_decode, NULL);
}

static bool bench_codecs(struct rows *r)
{
	static const struct {
		weir_codec codec;
		const char *feedback, *encode, *decode;
	} codecs[] = {
	    {WEIR_CODEC_INT8, "int8 with feedback", "int8", "int8 decoded"},
	    {WEIR_CODEC_INT4, "int4 with feedback", "int4", "int4 decoded"},
	    {WEIR_CODEC_INT2, "int2 with feedback", "int2", "int2 decoded"},
	    {WEIR_CODEC_SIGN, "sign with feedback", "sign", "sign decoded"},
	    {WEIR_CODEC_FP8_E4M3, "fp8 e4m3 with feedback", "fp8 e4m3", "fp8 e4m3 decoded"},
	    {WEIR_CODEC_FP8_E5M2, "fp8 e5m2 with feedback", "fp8 e5m2", "fp8 e5m2 decoded"},
	    {WEIR_CODEC_BF16, "bf16 with feedback", "bf16", "bf16 decoded"},
	};
	bool ok = true;
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs && ok; i++) {
		const double codes = (double)codec_bytes(codecs[i].codec, r->n) / (double)r->n;
		struct way w = {.r = r, .coding = {.codec = codecs[i].codec}};
		if (codecs[i].codec == WEIR_CODEC_INT4)
			w.coding.book = book_known(WEIR_BOOK_NF4);
		ok = measure(&w, codecs[i].feedback, FEEDBACK_BYTES + codes, run_feedback, restore);
		ok = ok && measure(&w, codecs[i].encode, sizeof(float) + codes, run_encode, NULL);
		ok = ok && measure(&w, codecs[i].decode, sizeof(float) + codes, run_decode, NULL);
	}
	return ok;
}

void bench_compression(struct gpu_bench *g, size_t n)
{
	struct rows r;
	weir_error err = {0};
	if (rows_open(&r, g, n) && g->b->ops->sync(g->b, &err) == WEIR_OK) {
		if (bench_topk(&r))
			(void)bench_codecs(&r); /* failures are printed, and the backend keeps the status */
	} else {
		(void)g->b->ops->sync(g->b, &err);
		printf("rows of %zu elements: left out: %s\n", n, err.text);
	}
	rows_close(&r);
}
