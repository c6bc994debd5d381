#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

static void cpu_opens_and_its_memory_is_zeroed(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_open(&(struct backend_options){.device = "cpu"}, &err);
	assert_non_null(b);
	assert_string_equal(b->ops->name, "cpu");
	static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, (size_t)5 << 20};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned char *p = b->ops->buffer_alloc(b, sizes[i]);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % CPU_LINE_BYTES, 0);
		for (size_t j = 0; j < sizes[i]; j++)
			assert_int_equal(p[j], 0);
		memset(p, 0xff, sizes[i]);
		b->ops->buffer_free(b, p);
	}
	char there[5], back[5];
	b->ops->to_device(b, there, "weir", 5);
	b->ops->to_host(b, back, there, 5);
	assert_string_equal(back, "weir");
	assert_int_equal(b->ops->sync(b, &err), WEIR_OK);
	b->ops->destroy(b);
}

static void auto_falls_back_to_the_cpu(void **state)
{
	(void)state;
	struct backend *b = backend_open(&(struct backend_options){.device = "auto", .threads = 2}, NULL);
	assert_non_null(b);
	b->ops->destroy(b);
}

static void cuda_without_its_library_says_what_to_do(void **state)
{
	(void)state;
	static const char *const devices[] = {"cuda", "cuda:0", "cuda:7"};
	for (size_t i = 0; i < 3; i++) {
		weir_error err = {0};
		struct backend *b = backend_open(&(struct backend_options){.device = devices[i], .threads = 1}, &err);
		if (b != NULL) { /* a build with CUDA on a machine with a device */
			b->ops->destroy(b);
			continue;
		}
		assert_int_equal(err.status, WEIR_E_UNSUPPORTED);
		assert_non_null(strstr(err.text, "CUDA"));
		assert_non_null(strstr(err.text, "device: cpu"));
	}
}

static void an_unknown_device_is_refused(void **state)
{
	(void)state;
	static const char *const devices[] = {
	    "", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:GPU", "cuda:MIG-", "cuda:99999999999", "CPU", "cuda:-1"};
	for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
		weir_error err = {0};
		const struct backend_options o = {.device = devices[i], .threads = 1};
		assert_null(backend_open(&o, &err));
		assert_int_equal(err.status, WEIR_E_INVALID);
		assert_non_null(strstr(err.text, "cuda:N"));
		assert_int_equal(backend_check(&o, &err), WEIR_E_INVALID);
	}
}

/* A backend refuses a precision that it does not have. */
static void the_cpu_refuses_what_it_does_not_compute(void **state)
{
	(void)state;
	static const enum compute_precision precisions[] = {COMPUTE_TF32, COMPUTE_BF16, COMPUTE_FP16};
	for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
		const char *name = compute_precision_name(precisions[i]);
		struct backend_options o = {.device = "cpu", .precision = precisions[i], .threads = 1};
		weir_error err = {0};
		assert_null(backend_open(&o, &err));
		assert_int_equal(err.status, WEIR_E_UNSUPPORTED);
		assert_non_null(strstr(err.text, name));
		assert_non_null(strstr(err.text, "which the CPU does not compute: use fp32, or device: cuda"));
		o.device = "auto";
		struct backend *b = backend_open(&o, &err);
		assert_int_equal(backend_check(&o, NULL), b != NULL ? WEIR_OK : WEIR_E_UNSUPPORTED);
		if (b != NULL) { /* this machine has a device */
			b->ops->destroy(b);
			continue;
		}
		assert_non_null(strstr(err.text, name));
		assert_non_null(strstr(err.text, "device: auto finds no other: "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(cpu_opens_and_its_memory_is_zeroed),       cmocka_unit_test(auto_falls_back_to_the_cpu),
	    cmocka_unit_test(cuda_without_its_library_says_what_to_do), cmocka_unit_test(an_unknown_device_is_refused),
	    cmocka_unit_test(the_cpu_refuses_what_it_does_not_compute),
	};
	return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}
