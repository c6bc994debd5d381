/* The CUDA backend on the emulated device: errors without a device and on failure, its memory
 * budget, and results that do not depend on the order of threads and blocks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_host/cuda_host.h"
#include "tests/unit/kernels/check_backend.h"
#include "tests/unit/kernels/mirror.h"
#include "tests/unit/kernels/op_cases.h"

/* Values of cudaError_t. */
enum { OUT_OF_MEMORY = 2, INSUFFICIENT_DRIVER = 35, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701 };

static void check_contains(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' is not in '%s'", part, text);
}

static struct backend *create(uint64_t memory_bytes, weir_error *err)
{
	return weir_backend_cuda_create(&(struct backend_options){.device = "cuda", .memory_bytes = memory_bytes}, err);
}

static void check_refused(const char *why)
{
	weir_error err = {0};
	assert_null(create(0, &err));
	assert_int_equal(err.status, WEIR_E_UNSUPPORTED);
	check_contains(err.text, why);
	check_contains(err.text, "use device: cpu");
	assert_int_equal(cuda_host_allocated(), 0);
}

static struct backend *open_device(void)
{
	weir_error err = {0};
	struct backend *b = create(0, &err);
	if (b == NULL)
		fail_msg("%s", err.text);
	assert_string_equal(b->ops->name, "cuda (emulated)");
	return b;
}

/* Each call of the backend's construction fails in turn. Nothing leaks. */
static void a_backend_that_cannot_be_made_names_the_call(void **state)
{
	(void)state;
	static const char *const calls[] = {"cudaSetDevice", "cudaStreamCreateWithFlags", "cudaHostAlloc", "cublasCreate"};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		cuda_host.fail_call = calls[i];
		cuda_host.fail_code = OUT_OF_MEMORY;
		check_refused(calls[i]);
	}
}

static void a_failure_is_kept_until_it_is_told(void **state)
{
	(void)state;
	static const struct {
		const char *call, *told, *text;
		int code;
	} cases[] = {
	    {"launch", "fill_kernel<4>", "too many resources requested for launch (cudaErrorLaunchOutOfResources)", OUT_OF_RESOURCES},
	    {"cudaStreamSynchronize", "cudaStreamSynchronize", "an illegal memory access was encountered (cudaErrorIllegalAddress)",
	     ILLEGAL_ADDRESS},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct backend *b = open_device();
		float *x = b->ops->buffer_alloc(b, 64 * sizeof *x);
		cuda_host.fail_call = cases[i].call;
		cuda_host.fail_code = cases[i].code;
		b->ops->fill(b, x, 1, 64);
		for (int again = 0; again < 2; again++) {
			weir_error err = {0};
			assert_int_equal(b->ops->sync(b, &err), WEIR_E_INTERNAL);
			check_contains(err.text, "cuda:0 (emulated device)");
			check_contains(err.text, cases[i].told);
			check_contains(err.text, cases[i].text);
			check_contains(err.text, "use device: cpu");
			cuda_host_reset(); /* a failure is permanent */
		}
		assert_false(b->ops->all_finite(b, x, 64));
		assert_null(b->ops->buffer_alloc(b, 1));
		b->ops->destroy(b);
		assert_int_equal(cuda_host_allocated(), 0);
	}
}

/* Pulls and pushes need keys, so the host finds the distinct keys after a failure. */
static void keys_are_found_by_the_host_after_a_failure(void **state)
{
	(void)state;
	enum { N = 50000, DISTINCT = 1000 };
	static uint64_t keys[N], distinct[N];
	static uint32_t index[N];
	for (size_t i = 0; i < N; i++)
		keys[i] = i * 7 % DISTINCT;
	struct backend *b = open_device();
	weir_error err = {0};
	cuda_host.fail_call = "launch";
	cuda_host.fail_code = OUT_OF_RESOURCES;
	for (int again = 0; again < 2; again++) {
		assert_int_equal(b->ops->unique(b, keys, N, distinct, index), DISTINCT);
		for (size_t i = 0; i < N; i++)
			assert_true(distinct[index[i]] == keys[i]);
		assert_int_equal(b->ops->sync(b, &err), WEIR_E_INTERNAL);
		check_contains(err.text, "insert_kernel");
		cuda_host_reset();
	}
	b->ops->destroy(b);
}

/* Waiting for a mark reports failures of any stream. */
static void a_mark_tells_what_has_failed(void **state)
{
	(void)state;
	struct backend *b = open_device();
	struct backend_mark m = {0};
	float *x = b->ops->buffer_alloc(b, 64 * sizeof *x);
	weir_error err = {0};
	b->ops->choose_stream(b, STREAM_OUT);
	b->ops->set_mark(b, &m);
	b->ops->choose_stream(b, STREAM_COMPUTE);
	assert_int_equal(b->ops->await_mark(b, &m, &err), WEIR_OK);
	cuda_host.fail_call = "launch";
	cuda_host.fail_code = OUT_OF_RESOURCES;
	b->ops->fill(b, x, 1, 64);
	cuda_host_reset();
	assert_int_equal(b->ops->await_mark(b, &m, &err), WEIR_E_INTERNAL);
	check_contains(err.text, "fill_kernel");
	b->ops->free_mark(b, &m);
	b->ops->destroy(b);
	static const char *const calls[] = {"cudaEventRecord", "cudaStreamWaitEvent", "cudaEventSynchronize"};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		b = open_device();
		b->ops->set_mark(b, &m);
		cuda_host.fail_call = calls[i];
		cuda_host.fail_code = ILLEGAL_ADDRESS;
		b->ops->follow_mark(b, &m);
		b->ops->set_mark(b, &m);
		assert_int_equal(b->ops->await_mark(b, &m, &err), WEIR_E_INTERNAL);
		check_contains(err.text, calls[i]);
		cuda_host_reset();
		b->ops->free_mark(b, &m);
		b->ops->destroy(b);
	}
}

struct run {
	struct backend *b;
	float *x; /* (64) */
	bool reads_back;
};

static void add_one(void *arg)
{
	const struct run *r = arg;
	float got[64];
	r->b->ops->axpy(r->b, r->x, 1, r->x + 64, 64);
	if (r->reads_back) /* a run must not read back */
		r->b->ops->to_host(r->b, got, r->x, sizeof got);
}

/* Runs `add_one` `times` times; returns the reason why it is not replayed. */
static const char *run_again(struct run *r, unsigned times)
{
	struct backend *b = r->b;
	struct backend_info info;
	float got[64];
	weir_error err = {0};
	b->ops->fill(b, r->x, 0, 64);
	for (unsigned i = 0; i < times; i++)
		b->ops->replay(b, r, sizeof *r, add_one, r);
	b->ops->to_host(b, got, r->x, sizeof got);
	if (b->ops->sync(b, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < 64; i++)
		assert_true(got[i] == (float)times);
	b->ops->info(b, &info);
	return info.not_replayed;
}

static void run_open(struct run *r, bool reads_back)
{
	memset(r, 0, sizeof *r); /* the run is its own key */
	r->b = open_device();
	r->x = r->b->ops->buffer_alloc(r->b, 128 * sizeof *r->x);
	r->reads_back = reads_back;
	r->b->ops->fill(r->b, r->x + 64, 1, 64);
}

/* The ops run one by one; the reason is recorded. */
static void a_run_that_cannot_be_one_call_is_done_all_the_same(void **state)
{
	(void)state;
	static const char *const calls[] = {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate"};
	struct run r;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		run_open(&r, false);
		cuda_host.fail_call = calls[i];
		cuda_host.fail_code = OUT_OF_MEMORY;
		const size_t before = cuda_host_graph_launches();
		const char *why = run_again(&r, 4);
		assert_non_null(why);
		check_contains(why, calls[i]);
		check_contains(why, "out of memory (cudaErrorMemoryAllocation)");
		cuda_host_reset();
		(void)run_again(&r, 3); /* no second attempt */
		assert_int_equal(cuda_host_graph_launches(), before);
		r.b->ops->destroy(r.b);
	}
	run_open(&r, true);
	const char *why = run_again(&r, 4);
	assert_non_null(why);
	check_contains(why, "cudaErrorStreamCapture");
	check_contains(why, "cannot be part of a run");
	r.b->ops->destroy(r.b);
	assert_int_equal(cuda_host_allocated(), 0);
}

static void a_run_that_is_one_call_fails_as_an_op_does(void **state)
{
	(void)state;
	struct run r;
	weir_error err = {0};
	run_open(&r, false);
	const size_t before = cuda_host_graph_launches();
	assert_null(run_again(&r, 4));
	assert_int_equal(cuda_host_graph_launches() - before, 3);
	cuda_host.fail_call = "cudaGraphLaunch";
	cuda_host.fail_code = ILLEGAL_ADDRESS;
	r.b->ops->replay(r.b, &r, sizeof r, add_one, &r);
	cuda_host_reset();
	assert_int_equal(r.b->ops->sync(r.b, &err), WEIR_E_INTERNAL);
	check_contains(err.text, "cudaGraphLaunch");
	r.b->ops->replay(r.b, &r, sizeof r, add_one, &r); /* does nothing, as any op after a failure */
	r.b->ops->destroy(r.b);
}

static void memory_that_is_not_there_is_refused_and_told_once(void **state)
{
	(void)state;
	cuda_host.memory_bytes = (size_t)100 << 20;
	struct backend *b = open_device();
	weir_error err = {0};
	void *half = b->ops->buffer_alloc(b, (size_t)30 << 20);
	assert_non_null(half);
	/* the budget is 90 %; cuBLAS takes 32 MiB */
	assert_null(b->ops->buffer_alloc(b, (size_t)40 << 20));
	assert_int_equal(b->ops->sync(b, &err), WEIR_E_MEMORY);
	check_contains(
	    err.text,
	    "cuda:0 (emulated device): out of memory: 40.0 MiB were asked for, and 62.0 MiB are in use, of a budget of 90.0 MiB");
	check_contains(err.text, "train.device_memory is the budget: raise it, make data.batch smaller, or use device: cpu");
	assert_int_equal(b->ops->sync(b, &err), WEIR_OK);
	assert_null(b->ops->buffer_alloc(b, SIZE_MAX / 2));
	/* free memory serves other requests, of other sizes too */
	b->ops->buffer_free(b, half);
	void *other = b->ops->buffer_alloc(b, (size_t)40 << 20);
	assert_non_null(other);
	b->ops->buffer_free(b, other);
	assert_ptr_equal(b->ops->buffer_alloc(b, (size_t)40 << 20), other);
	b->ops->destroy(b);
	assert_int_equal(cuda_host_allocated(), 0);
}

/* Within the budget, but other programs have taken the device's memory. */
static void memory_that_others_have_is_told_of_them(void **state)
{
	(void)state;
	struct backend *b = open_device();
	weir_error err = {0};
	cuda_host.memory_taken = (size_t)200 << 20;
	assert_null(b->ops->buffer_alloc(b, (size_t)40 << 20));
	assert_int_equal(b->ops->sync(b, &err), WEIR_E_MEMORY);
	check_contains(err.text, "40.0 MiB were asked for");
	check_contains(err.text,
	               "(the device has 24.0 MiB free of 256.0 MiB); others have the rest: end other programs on the device");
	b->ops->destroy(b);
}

static void the_budget_is_what_the_job_says(void **state)
{
	(void)state;
	const uint64_t budget = (uint64_t)80 << 20;
	weir_error err = {0};
	struct backend *b = create(budget, &err);
	struct backend_info info;
	assert_non_null(b);
	b->ops->info(b, &info);
	assert_string_equal(info.device, "cuda:0 (emulated device)");
	assert_int_equal(info.memory_budget, budget);
	assert_int_equal(info.memory_used, (size_t)32 << 20); /* cuBLAS's workspace */
	void *x = b->ops->buffer_alloc(b, (size_t)40 << 20), *y = b->ops->buffer_alloc(b, (size_t)8 << 20);
	assert_non_null(x);
	assert_non_null(y);
	assert_null(b->ops->buffer_alloc(b, 1));
	b->ops->buffer_free(b, x);
	b->ops->info(b, &info);
	assert_int_equal(info.memory_used, (size_t)40 << 20);
	assert_int_equal(info.memory_held, budget); /* kept for the next allocation */
	assert_int_equal(info.memory_used_most, budget);
	b->ops->destroy(b);
	b = create((uint64_t)300 << 20, &err);
	assert_null(b);
	check_contains(err.text, "cuda:0 (emulated device) has 256.0 MiB free of 256.0 MiB, and train.device_memory is 300.0 MiB");
	assert_int_equal(cuda_host_allocated(), 0);
}

static void an_op_without_memory_fails_for_good(void **state)
{
	(void)state;
	cuda_host.memory_bytes = (size_t)64 << 20;
	struct backend *b = open_device();
	const size_t n = 5 << 20;
	float *x = b->ops->buffer_alloc(b, n * sizeof *x);
	assert_non_null(x);
	weir_error err = {0};
	/* 40 MiB of scratch for the losses */
	b->ops->cross_entropy(b, NULL, NULL, NULL, x, (const uint32_t *)x, n, 1, 1);
	assert_int_equal(b->ops->sync(b, &err), WEIR_E_MEMORY);
	check_contains(err.text, "out of memory");
	assert_int_equal(b->ops->sync(b, &err), WEIR_E_MEMORY);
	b->ops->destroy(b);
}

static void no_result_depends_on_the_order_of_threads(void **state)
{
	(void)state;
	for (unsigned i = 0, more = 1; more; i++) {
		float *first = NULL;
		for (uint64_t order = 1; order <= 6 && more; order++) {
			cuda_host.seed = order;
			struct backend *b = mirror_of(open_device());
			struct prng rng;
			prng_seed(&rng, 5);
			float *out = calloc(OP_CASE_RESULTS, sizeof *out);
			assert_non_null(out);
			more = op_case_run(i, b, &rng, out);
			b->ops->destroy(b);
			if (first != NULL)
				check_same_bits("in another order", out, first, OP_CASE_RESULTS);
			free(first);
			first = out;
		}
		free(first);
	}
}

static void a_target_that_is_no_class_is_not_a_number(void **state)
{
	(void)state;
	struct backend *b = mirror_of(open_device());
	const float z[] = {1, 2, 3, 4};
	const uint32_t targets[] = {1, 2};
	float losses[2];
	double loss = 0;
	b->ops->cross_entropy(b, &loss, NULL, losses, z, targets, 2, 2, 1);
	assert_true(isnan(loss));
	assert_true(isfinite(losses[0]) && isnan(losses[1]));
	b->ops->destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(a_backend_that_cannot_be_made_names_the_call, cuda_host_ordinary),
	    cmocka_unit_test_setup(a_failure_is_kept_until_it_is_told, cuda_host_ordinary),
	    cmocka_unit_test_setup(keys_are_found_by_the_host_after_a_failure, cuda_host_ordinary),
	    cmocka_unit_test_setup(a_mark_tells_what_has_failed, cuda_host_ordinary),
	    cmocka_unit_test_setup(a_run_that_cannot_be_one_call_is_done_all_the_same, cuda_host_ordinary),
	    cmocka_unit_test_setup(a_run_that_is_one_call_fails_as_an_op_does, cuda_host_ordinary),
	    cmocka_unit_test_setup(memory_that_is_not_there_is_refused_and_told_once, cuda_host_ordinary),
	    cmocka_unit_test_setup(memory_that_others_have_is_told_of_them, cuda_host_ordinary),
	    cmocka_unit_test_setup(the_budget_is_what_the_job_says, cuda_host_ordinary),
	    cmocka_unit_test_setup(an_op_without_memory_fails_for_good, cuda_host_ordinary),
	    cmocka_unit_test_setup(no_result_depends_on_the_order_of_threads, cuda_host_ordinary),
	    cmocka_unit_test_setup(a_target_that_is_no_class_is_not_a_number, cuda_host_ordinary),
	};
	return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
