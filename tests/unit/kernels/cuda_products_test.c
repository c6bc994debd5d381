/* The CUDA backend's use of cuBLASLt on the emulated device: it selects an algorithm once per
 * shape, keeps a bounded number, and works without any. */
#include <math.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "tests/cuda_host/cuda_host.h"
#include "tests/unit/kernels/check_backend.h"
#include "tests/unit/kernels/mirror.h"

enum { PLANS_MAX = 256 }; /* equals CUDA_PLANS_MAX of kernels/cuda/cuda.h */

static struct backend *open_device(enum compute_precision precision)
{
	weir_error err = {0};
	struct backend *b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda", .precision = precision}, &err);
	if (b == NULL)
		fail_msg("%s", err.text);
	return b;
}

static void check_sound(struct backend *b)
{
	weir_error err = {0};
	CHECK_OK(b->ops->sync(b, &err), err);
}

static void an_algorithm_is_asked_for_once(void **state)
{
	(void)state;
	struct backend *b = open_device(COMPUTE_FP32);
	float *x = b->ops->buffer_alloc(b, 1 << 20);
	const struct linear l = {x, x, 8, 16, 4};
	b->ops->linear(b, x + 4096, &l, x, ACT_RELU);
	assert_int_equal(cuda_host.heuristics, 1);
	for (int i = 0; i < 3; i++)
		b->ops->linear(b, x + 4096, &l, x, ACT_RELU);
	assert_int_equal(cuda_host.heuristics, 1);
	b->ops->linear(b, x + 4096, &l, NULL, ACT_RELU); /* a different epilogue */
	assert_int_equal(cuda_host.heuristics, 2);
	/* different alignments */
	const struct linear odd_x = {x + 1, x, 8, 16, 4}, odd_W = {x, x + 1, 8, 16, 4};
	b->ops->linear(b, x + 4096, &odd_x, NULL, ACT_RELU);
	b->ops->linear(b, x + 4096, &odd_W, NULL, ACT_RELU);
	b->ops->linear(b, x + 4097, &l, NULL, ACT_RELU);
	b->ops->linear(b, x + 4096, &l, x + 2, ACT_RELU);
	assert_int_equal(cuda_host.heuristics, 6);
	b->ops->linear_backward(b, x + 8192, x + 16384, 16, 0, x, &l);
	assert_int_equal(cuda_host.heuristics, 8);
	b->ops->linear(b, x + 4096, &l, x, ACT_RELU);
	assert_int_equal(cuda_host.heuristics, 8);
	check_sound(b);
	b->ops->destroy(b);
}

/* More shapes than the bound: the oldest are evicted, and selected again when they return. */
static void algorithms_are_kept_within_a_bound(void **state)
{
	(void)state;
	struct backend *b = open_device(COMPUTE_FP32);
	float *x = b->ops->buffer_alloc(b, 1 << 20), y[4], four[4] = {1, 2, 3, 4};
	b->ops->to_device(b, x, four, sizeof four);
	for (int round = 0; round < 2; round++)
		for (size_t rows = 1; rows <= PLANS_MAX + 10; rows++) {
			const struct linear l = {x, x, rows, 2, 1};
			b->ops->linear(b, x + 65536, &l, NULL, ACT_NONE);
		}
	assert_int_equal(cuda_host.heuristics, 2 * (PLANS_MAX + 10));
	for (size_t rows = PLANS_MAX; rows <= PLANS_MAX + 10; rows++) { /* these are cached */
		const struct linear l = {x, x, rows, 2, 1};
		b->ops->linear(b, x + 65536, &l, NULL, ACT_NONE);
	}
	assert_int_equal(cuda_host.heuristics, 2 * (PLANS_MAX + 10));
	b->ops->to_host(b, y, x + 65536, sizeof y);
	assert_true(y[0] == 5 && y[1] == 11 && y[2] == 0);
	check_sound(b);
	b->ops->destroy(b);
}

static void without_an_algorithm_it_is_done_in_passes(void **state)
{
	(void)state;
	for (enum compute_precision p = COMPUTE_FP32; p <= COMPUTE_FP16; p++) {
		enum { ROWS = 33, IN = 20, OUT = 17 };
		float *y[2];
		for (int without = 0; without < 2; without++) {
			cuda_host_reset();
			cuda_host.no_algorithm = without;
			struct backend *b = mirror_of(open_device(p));
			struct prng rng;
			prng_seed(&rng, 9);
			float *x = random_floats(&rng, ROWS * IN, -1, 1), *W = random_floats(&rng, OUT * IN, -1, 1);
			float *bias = random_floats(&rng, OUT, -1, 1);
			const struct linear l = {x, W, ROWS, IN, OUT};
			y[without] = poisoned_floats(ROWS * OUT);
			b->ops->linear(b, y[without], &l, bias, ACT_RELU);
			assert_int_equal(cuda_host.heuristics, without ? 0 : 1);
			b->ops->destroy(b);
			free(x);
			free(W);
			free(bias);
		}
		check_same_bits("in passes", y[1], y[0], ROWS * OUT);
		free(y[0]);
		free(y[1]);
	}
}

/* Split sums have a fixed order. */
static void no_sum_depends_on_the_order_of_its_parts(void **state)
{
	(void)state;
	enum { ROWS = 3000, IN = 10, OUT = 6 };
	for (enum compute_precision p = COMPUTE_FP32; p <= COMPUTE_FP16; p++) {
		float *first = NULL;
		for (uint64_t order = 1; order <= 4; order++) {
			cuda_host_reset();
			cuda_host.seed = order;
			struct backend *b = mirror_of(open_device(p));
			struct prng rng;
			prng_seed(&rng, 3);
			float *x = random_floats(&rng, ROWS * IN, -1, 1), *W = random_floats(&rng, OUT * IN, -1, 1);
			float *dz = random_floats(&rng, ROWS * OUT, -1, 1), *dW = poisoned_floats(OUT * IN);
			const struct linear l = {x, W, ROWS, IN, OUT};
			b->ops->linear_backward(b, dW, NULL, 0, 0, dz, &l);
			b->ops->destroy(b);
			free(x);
			free(W);
			free(dz);
			if (first == NULL) {
				first = dW;
				continue;
			}
			check_same_bits("in another order", dW, first, OUT * IN);
			free(dW);
		}
		free(first);
	}
}

static void a_failure_names_the_call(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = open_device(COMPUTE_FP32);
	float *x = b->ops->buffer_alloc(b, 1 << 20);
	const struct linear l = {x, x, 8, 16, 4};
	cuda_host.fail_call = "cublasLtMatmul";
	b->ops->linear(b, x + 4096, &l, x, ACT_RELU);
	assert_int_equal(b->ops->sync(b, &err), WEIR_E_INTERNAL);
	CHECK_CONTAINS(
	    err.text, "cuda:0 (emulated device): cublasLtMatmul: the GPU program failed to execute (CUBLAS_STATUS_EXECUTION_FAILED)");
	CHECK_CONTAINS(err.text, "use device: cpu");
	/* no later op starts */
	b->ops->gemm(b, false, false, (size_t)1 << 31, 1, 1, 1, x, 1, x, 1, 0, x, 1);
	b->ops->destroy(b);
	b = open_device(COMPUTE_FP32);
	x = b->ops->buffer_alloc(b, 16);
	b->ops->gemm(b, false, false, (size_t)1 << 31, 1, 1, 1, x, 1, x, 1, 0, x, 1);
	assert_int_equal(b->ops->sync(b, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "a matrix larger than cuBLAS can have");
	b->ops->destroy(b);
	assert_int_equal(cuda_host_allocated(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(an_algorithm_is_asked_for_once, cuda_host_ordinary),
	    cmocka_unit_test_setup(algorithms_are_kept_within_a_bound, cuda_host_ordinary),
	    cmocka_unit_test_setup(without_an_algorithm_it_is_done_in_passes, cuda_host_ordinary),
	    cmocka_unit_test_setup(no_sum_depends_on_the_order_of_its_parts, cuda_host_ordinary),
	    cmocka_unit_test_setup(a_failure_names_the_call, cuda_host_ordinary),
	};
	return cmocka_run_group_tests_name("cuda_products", tests, NULL, NULL);
}
