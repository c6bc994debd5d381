#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif
#include "tests/rounds.h"
#include "tests/unit/kernels/mirror.h"

#define THREADS_MOST 3
#define ORDERS       3 /* thread orders of an emulated device */
#define SKIPPED      77

struct backend *unmirrored(struct backend *b)
{
	return is_cpu(b) ? b : mirror_device(b);
}

static void run(const char *name, struct backend *b, uint64_t seed, backend_test fn)
{
	const char *other = getenv("WEIR_TEST_SEED");
	struct prng rng;
	prng_seed(&rng, other != NULL ? prng_mix(seed, strtoull(other, NULL, 10), 0) : seed);
	print_message("           %s\n", name);
	fn(b, &rng);
	b->ops->destroy(b);
}

static const char *device_asked_for(void)
{
	return getenv("WEIR_TEST_DEVICE");
}

void on_every_cpu_backend(uint64_t seed, backend_test fn)
{
	if (device_asked_for() != NULL)
		return;
	for (unsigned i = 0; cpu_variant_at(i) != NULL; i++)
		for (uint32_t threads = 1; threads <= THREADS_MOST; threads++) {
			weir_error err = {0};
			char name[64];
			struct backend *b = backend_cpu_create_with(cpu_variant_at(i), threads, &err);
			if (b == NULL)
				fail_msg("%s", err.text);
			snprintf(name, sizeof name, "%s, %u threads", cpu_variant_at(i)->name, threads);
			run(name, b, seed, fn);
		}
}

#if defined(WEIR_CUDA_HOST)
static void on_the_emulated_device(uint64_t seed, enum compute_precision precision, uint64_t orders, backend_test fn)
{
	for (uint64_t order = seed; order < seed + orders; order++) {
		weir_error err = {0};
		char name[64];
		cuda_host_reset();
		cuda_host.seed = order;
		struct backend *b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda", .precision = precision}, &err);
		if (b == NULL)
			fail_msg("%s", err.text);
		snprintf(name, sizeof name, "%s, %s, order %u", b->ops->name, compute_precision_name(precision), (unsigned)order);
		run(name, mirror_of(b), seed, fn);
		assert_int_equal(cuda_host_allocated(), 0);
	}
}
#else
static void on_the_emulated_device(uint64_t seed, enum compute_precision precision, uint64_t orders, backend_test fn)
{
	(void)seed, (void)precision, (void)orders, (void)fn;
}
#endif

/* Opens WEIR_TEST_DEVICE; NULL if the device lacks this precision. */
static struct backend *open_asked_for(enum compute_precision precision)
{
	weir_error err = {0};
	const struct backend_options o = {.device = device_asked_for(), .precision = precision, .threads = 1};
	struct backend *b = backend_open(&o, &err);
	if (b != NULL)
		return is_cpu(b) ? b : mirror_of(b);
	fprintf(stderr, "skipped: %s\n", err.text);
	if (precision == COMPUTE_FP32 || err.status != WEIR_E_UNSUPPORTED)
		exit(err.status == WEIR_E_UNSUPPORTED ? SKIPPED : 1);
	return NULL;
}

void on_every_backend(uint64_t seed, backend_test fn)
{
	if (device_asked_for() == NULL) {
		on_every_cpu_backend(seed, fn);
		on_the_emulated_device(seed, COMPUTE_FP32, rounds(ORDERS), fn);
		return;
	}
	struct backend *b = open_asked_for(COMPUTE_FP32);
	run(b->ops->name, b, seed, fn);
}

void on_every_precision(uint64_t seed, backend_test fn)
{
	on_every_backend(seed, fn);
	for (enum compute_precision p = COMPUTE_TF32; p <= COMPUTE_FP16; p++) {
		if (device_asked_for() == NULL) {
			on_the_emulated_device(seed, p, 1, fn);
			continue;
		}
		struct backend *b = open_asked_for(p);
		if (b != NULL)
			run(compute_precision_name(p), b, seed, fn);
	}
}

void numeric_gradient(loss_fn loss, void *context, double *x, size_t n, double *gradient)
{
	const double step = 1e-5;
	for (size_t i = 0; i < n; i++) {
		const double kept = x[i];
		x[i] = kept + step;
		const double above = loss(context);
		x[i] = kept - step;
		gradient[i] = (above - loss(context)) / (2 * step);
		x[i] = kept;
	}
}

double *to_doubles(const float *x, size_t n)
{
	double *d = malloc((n + 1) * sizeof *d);
	assert_non_null(d);
	for (size_t i = 0; i < n; i++)
		d[i] = x[i];
	return d;
}

float *copy_floats(const float *x, size_t n)
{
	float *copy = malloc((n + 1) * sizeof *copy);
	assert_non_null(copy);
	memcpy(copy, x, n * sizeof *x);
	return copy;
}

void check_sync(struct backend *b)
{
	weir_error err = {0};
	if (b->ops->sync(b, &err) != WEIR_OK)
		fail_msg("%s", err.text);
}
