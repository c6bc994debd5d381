/* bench_gpu [--device D] [--elements N,N..] [--out FILE] [--check] [--quick]
 *           [copies | compression | model | text]...
 *
 * Measures the time of the backend's ops on a device, the bytes that they must move, and the share
 * of a copy's speed in the same run. N is in units of 2^20 (16,64,256). Each figure is appended to
 * FILE at once, as a line separated by tabs: name, n, seconds, bytes, share of a copy, FLOPs.
 * --check: the exit status tells whether compression meets its targets. --quick: a small version of
 * everything, also for an emulated device. */
#include "tests/bench/gpu/bench_gpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/prng.h"
#include "kernels/codec.h"
#include "tests/bench/median.h"

#define ROUNDS         9
#define SECONDS        4e-3
#define COPY_BYTES     ((size_t)512 << 20)
#define CALLS_MAX      1000
#define MIB            ((size_t)1 << 20)
#define POOL           MIB /* normal numbers, from which all data is made */
#define SIZES_MAX      8
#define SKIPPED        77
#define QUICK_ELEMENTS (2 * (size_t)CODEC_TILE + 77)
#define QUICK_COPY     ((size_t)64 << 10)

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- Memory */

void *gpu_bytes(struct gpu_bench *g, size_t bytes)
{
	return g->b->ops->buffer_alloc(g->b, bytes);
}

void gpu_free(struct gpu_bench *g, void *p)
{
	if (p != NULL)
		g->b->ops->buffer_free(g->b, p);
}

/* Copies from a pool at another offset for each tile: generating all numbers would take long. */
float *gpu_normal(struct gpu_bench *g, size_t n, uint64_t seed)
{
	const size_t pool = g->quick ? 2 * CODEC_TILE : POOL + CODEC_TILE;
	float *host = malloc(pool * sizeof *host), *there = gpu_bytes(g, pool * sizeof *there), *x = gpu_bytes(g, n * sizeof *x);
	struct prng r;
	prng_seed(&r, seed);
	for (size_t i = 0; host != NULL && there != NULL && i < pool; i++)
		host[i] = prng_normal(&r);
	if (host != NULL && there != NULL && x != NULL) {
		g->b->ops->to_device(g->b, there, host, pool * sizeof *host);
		for (size_t at = 0; at < n; at += CODEC_TILE)
			g->b->ops->copy(g->b, x + at, there + prng_below(&r, (pool - CODEC_TILE) / 4) * 4, codec_tile_elements(n, at));
	}
	gpu_free(g, there);
	free(host);
	return x;
}

/* --- Measuring */

static bool settled(struct gpu_bench *g, weir_error *err)
{
	return g->b->ops->sync(g->b, err) == WEIR_OK;
}

/* Seconds per call; < 0: failure. */
static double measure(struct gpu_bench *g, const struct gpu_subject *s, unsigned calls, weir_error *err)
{
	if (s->reset != NULL)
		s->reset(s->arg);
	if (!settled(g, err))
		return -1;
	const double start = now_s();
	for (unsigned i = 0; i < calls; i++)
		s->run(s->arg, i);
	return settled(g, err) ? (now_s() - start) / calls : -1;
}

/* The number of calls for a long enough measurement. The first calls allocate memory and load
 * kernels. 0: failure. */
static unsigned calls_for(struct gpu_bench *g, const struct gpu_subject *s, weir_error *err)
{
	const unsigned most = s->calls_max > 0 ? s->calls_max : CALLS_MAX;
	if (measure(g, s, 1, err) < 0)
		return 0;
	const double each = measure(g, s, 1, err);
	const double calls = g->seconds / (each > 1e-9 ? each : 1e-9);
	return each < 0 ? 0 : calls < 1 ? 1 : calls > most ? most : (unsigned)calls;
}

static void copy_once(void *arg, unsigned call)
{
	struct gpu_bench *g = arg;
	(void)call;
	g->b->ops->copy(g->b, g->to, g->from, g->copy_bytes / sizeof(float));
}

static bool measure_copy(struct gpu_bench *g, weir_error *err)
{
	const struct gpu_subject copy = {.name = "copy", .run = copy_once, .arg = g};
	const unsigned calls = g->quick ? 1 : 4;
	const double seconds = measure(g, &copy, calls, err);
	g->copy_speed = 2.0 * (double)g->copy_bytes / seconds;
	return seconds >= 0;
}

static void show(const struct gpu_result *r)
{
	printf("%-34s %11zu %10.1f us", r->name, r->n, r->seconds * 1e6);
	if (r->bytes > 0)
		printf(" %9.1f MB %8.1f GB/s %6.3f of a copy", r->bytes / 1e6, r->bytes / r->seconds / 1e9, r->of_copy);
	if (r->flops > 0)
		printf(" %8.2f TFLOP/s", r->flops / r->seconds / 1e12);
	printf("\n");
	fflush(stdout);
}

/* Flushes, so that killing the program loses no figure. */
static void write_result(struct gpu_bench *g, const struct gpu_result *r)
{
	if (g->out == NULL)
		return;
	fprintf(g->out, "%s\t%zu\t%.9g\t%.0f\t%.4f\t%.0f\n", r->name, r->n, r->seconds, r->bytes, r->of_copy, r->flops);
	fflush(g->out);
}

bool gpu_measure(struct gpu_bench *g, const struct gpu_subject *s)
{
	double seconds[ROUNDS], shares[ROUNDS];
	weir_error err = {0};
	unsigned calls = calls_for(g, s, &err);
	for (unsigned r = 0; r < g->rounds && calls > 0; r++) {
		if (!measure_copy(g, &err) || (seconds[r] = measure(g, s, calls, &err)) < 0)
			calls = 0;
		else
			shares[r] = s->bytes / seconds[r] / g->copy_speed;
	}
	if (calls == 0) {
		printf("%-34s %11zu failed: %s\n", s->name, s->n, err.text);
		return false;
	}
	if (g->count == GPU_RESULTS_MAX)
		abort();
	struct gpu_result *to = &g->results[g->count++];
	*to = (struct gpu_result){.n = s->n, .bytes = s->bytes, .flops = s->flops};
	snprintf(to->name, sizeof to->name, "%s", s->name);
	to->seconds = median(seconds, g->rounds);
	to->of_copy = median(shares, g->rounds);
	show(to);
	write_result(g, to);
	return true;
}

const struct gpu_result *gpu_result_of(const struct gpu_bench *g, const char *name, size_t n)
{
	for (unsigned i = 0; i < g->count; i++)
		if (g->results[i].n == n && strcmp(g->results[i].name, name) == 0)
			return &g->results[i];
	return NULL;
}

/* --- Targets */

static bool holds(const struct gpu_bench *g, const char *name, size_t n, double least)
{
	const struct gpu_result *r = gpu_result_of(g, name, n);
	const bool held = r != NULL && r->of_copy >= least;
	printf("%s: %s of %zu Mi at %.2f of a copy (target %.2f)\n", held ? "holds" : "DOES NOT HOLD", name, n / MIB,
	       r != NULL ? r->of_copy : NAN, least);
	return held;
}

static bool check(const struct gpu_bench *g)
{
	bool all = holds(g, "top-k 1 % int8", 64 * MIB, 0.85);
	all &= holds(g, "top-k 1 % int8", 256 * MIB, 0.85);
	all &= holds(g, "top-k 1 % int8", 16 * MIB, 0.70);
	all &= holds(g, "top-k 1 % int8, DGC", 64 * MIB, 0.80);
	all &= holds(g, "int8 with feedback", 64 * MIB, 0.85);
	return all;
}

/* --- The program */

struct asked {
	const char *device, *out;
	size_t sizes[SIZES_MAX], sizes_count;
	bool check, quick, copies, compression, model, text;
};

static int usage(void)
{
	fprintf(stderr, "bench_gpu [--device D] [--elements N,N..] [--out FILE] [--check] [--quick] "
	                "[copies | compression | model | text]...\n");
	return 2;
}

static bool read_sizes(const char *text, struct asked *a)
{
	a->sizes_count = 0;
	while (a->sizes_count < SIZES_MAX) {
		char *end;
		const unsigned long mib = strtoul(text, &end, 10);
		if (end == text || mib == 0 || mib > 1024 || (*end != ',' && *end != '\0'))
			return false;
		a->sizes[a->sizes_count++] = mib * MIB;
		if (*end == '\0')
			return true;
		text = end + 1;
	}
	return false;
}

static bool read_arguments(int argc, char **argv, struct asked *a)
{
	*a = (struct asked){.device = "cuda", .sizes = {16 * MIB, 64 * MIB, 256 * MIB}, .sizes_count = 3};
	for (int i = 1; i < argc; i++) {
		const bool more = i + 1 < argc;
		if (strcmp(argv[i], "--device") == 0 && more)
			a->device = argv[++i];
		else if (strcmp(argv[i], "--out") == 0 && more)
			a->out = argv[++i];
		else if (strcmp(argv[i], "--elements") == 0 && more && read_sizes(argv[i + 1], a))
			i++;
		else if (strcmp(argv[i], "--check") == 0)
			a->check = true;
		else if (strcmp(argv[i], "--quick") == 0)
			a->quick = true;
		else if (strcmp(argv[i], "copies") == 0)
			a->copies = true;
		else if (strcmp(argv[i], "compression") == 0)
			a->compression = true;
		else if (strcmp(argv[i], "model") == 0)
			a->model = true;
		else if (strcmp(argv[i], "text") == 0)
			a->text = true;
		else
			return false;
	}
	if (!a->copies && !a->compression && !a->model && !a->text)
		a->copies = a->compression = a->model = a->text = true;
	if (a->quick) {
		a->sizes[0] = QUICK_ELEMENTS;
		a->sizes_count = 1;
	}
	return true;
}

static void run_groups(struct gpu_bench *g, const struct asked *a)
{
	if (a->copies)
		bench_copies(g);
	for (size_t i = 0; i < a->sizes_count && a->compression; i++)
		bench_compression(g, a->sizes[i]);
	if (a->model)
		bench_model(g);
	if (a->text)
		bench_text(g);
}

int main(int argc, char **argv)
{
	static struct gpu_bench g;
	struct asked a;
	weir_error err = {0};
	if (!read_arguments(argc, argv, &a))
		return usage();
	FILE *out = a.out != NULL ? fopen(a.out, "a") : NULL;
	if (a.out != NULL && out == NULL) {
		fprintf(stderr, "bench_gpu: cannot write %s: %s\n", a.out, strerror(errno));
		return 1;
	}
	g = (struct gpu_bench){.b = backend_open(&(struct backend_options){.device = a.device}, &err),
	                       .out = out,
	                       .quick = a.quick,
	                       .rounds = a.quick ? 1 : ROUNDS,
	                       .seconds = a.quick ? 0 : SECONDS,
	                       .copy_bytes = a.quick ? QUICK_COPY : COPY_BYTES};
	if (g.b == NULL) {
		fprintf(stderr, "bench_gpu: %s\n", err.text);
		return err.status == WEIR_E_UNSUPPORTED ? SKIPPED : 1;
	}
	g.from = gpu_normal(&g, g.copy_bytes / sizeof(float), 1);
	g.to = gpu_bytes(&g, g.copy_bytes);
	if (!measure_copy(&g, &err) || !measure_copy(&g, &err)) {
		fprintf(stderr, "bench_gpu: %s\n", err.text);
		return 1;
	}
	struct backend_info info;
	g.b->ops->info(g.b, &info);
	printf("%s; a copy within its memory: %.1f GB/s, read and written\n", info.device, g.copy_speed / 1e9);
	run_groups(&g, &a);
	const bool failed = g.out && ferror(g.out);
	const bool written = (!g.out || fclose(g.out) == 0) && !failed;
	if (!written)
		fprintf(stderr, "bench_gpu: cannot write %s\n", a.out);
	const bool sound = settled(&g, &err);
	if (!sound)
		fprintf(stderr, "bench_gpu: %s\n", err.text);
	gpu_free(&g, g.from);
	gpu_free(&g, g.to);
	g.b->ops->destroy(g.b);
	return (a.check && !check(&g)) || !written || !sound;
}
