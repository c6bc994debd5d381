/* The backend that a name opens. This program's folder has a libweir_cuda.so of the emulated
 * device, so `cuda` opens here. */
#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/cmocka_check.h"

static void the_cpu_is_always_there(void **state)
{
	(void)state;
	weir_error err = {0};
	const struct backend_options o = {.device = "cpu", .threads = 1};
	CHECK_OK(backend_check(&o, &err), err);
	struct backend *b = backend_open(&o, &err);
	assert_non_null(b);
	assert_string_equal(b->ops->name, "cpu");
	assert_true(b->ops->host_memory);
	b->ops->destroy(b);
}

static void the_library_beside_the_program_is_opened(void **state)
{
	(void)state;
	static const char *const devices[] = {"cuda", "cuda:0"};
	for (size_t i = 0; i < 2; i++) {
		weir_error err = {0};
		const struct backend_options o = {.device = devices[i], .precision = COMPUTE_BF16};
		CHECK_OK(backend_check(&o, &err), err);
		struct backend *b = backend_open(&o, &err);
		if (b == NULL)
			fail_msg("%s: %s", devices[i], err.text);
		assert_string_equal(b->ops->name, "cuda (emulated)");
		assert_false(b->ops->host_memory);
		CHECK_OK(b->ops->sync(b, &err), err);
		b->ops->destroy(b);
	}
}

static void a_device_that_is_not_there_is_refused_with_what_to_do(void **state)
{
	(void)state;
	weir_error err = {0};
	assert_int_equal(backend_check(&(struct backend_options){.device = "cuda:1"}, &err), WEIR_E_UNSUPPORTED);
	CHECK_CONTAINS(err.text, "no device cuda:1: the driver shows this process cuda:0 (emulated device, GPU-");
	CHECK_CONTAINS(err.text, "use device: cpu");
	err = (weir_error){0};
	assert_int_equal(backend_check(&(struct backend_options){.device = "gpu"}, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "expected auto, cpu, cuda, cuda:N, cuda:GPU-... or cuda:MIG-...");
}

/* Returns true if a file of this name is mapped. */
static bool is_mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	bool found = false;
	assert_non_null(maps);
	while (fgets(line, sizeof line, maps) != NULL)
		found |= strstr(line, name) != NULL;
	fclose(maps);
	return found;
}

/* The CUDA runtime registers callbacks with the driver and with exit(), so the library must stay
 * loaded. */
static void the_library_stays_once_it_was_opened(void **state)
{
	(void)state;
	weir_error err = {0};
	CHECK_OK(backend_check(&(struct backend_options){.device = "cuda"}, &err), err);
	assert_true(is_mapped("/libweir_cuda.so"));
	assert_int_equal(backend_check(&(struct backend_options){.device = "cuda:1"}, &err), WEIR_E_UNSUPPORTED);
	assert_true(is_mapped("/libweir_cuda.so"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_cpu_is_always_there),
	    cmocka_unit_test(the_library_stays_once_it_was_opened),
	    cmocka_unit_test(the_library_beside_the_program_is_opened),
	    cmocka_unit_test(a_device_that_is_not_there_is_refused_with_what_to_do),
	};
	return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
