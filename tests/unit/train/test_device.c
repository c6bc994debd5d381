/* Which backend a worker gets. Beside this program lies a libweir_cuda.so of the emulated device, so that `cuda` opens here. */
#include "cmocka_check.h"
#include "device.h"

static void auto_and_cpu_are_the_cpu(void **state)
{
	(void)state;
	static const char *const devices[] = {"auto", "cpu"};
	for (size_t i = 0; i < 2; i++) {
		weir_error err = {0};
		CHECK_OK(device_check(devices[i], &err), err);
		struct backend *b = device_open(devices[i], 1, &err);
		assert_non_null(b);
		assert_string_equal(b->ops->name, "cpu");
		assert_true(b->ops->host_memory);
		b->ops->destroy(b);
	}
}

static void the_library_beside_the_program_is_opened(void **state)
{
	(void)state;
	static const char *const devices[] = {"cuda", "cuda:0", "auto"};
	for (size_t i = 0; i < 3; i++) {
		weir_error err = {0};
		struct backend *b = backend_open(devices[i], 1, &err);
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
	assert_int_equal(device_check("cuda:1", &err), WEIR_E_UNSUPPORTED);
	CHECK_CONTAINS(err.text, "no device cuda:1: this machine shows 1");
	CHECK_CONTAINS(err.text, "use device: cpu");
	err = (weir_error){0};
	assert_int_equal(device_check("gpu", &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "expected auto, cpu, cuda or cuda:N");
}

static void a_device_of_another_memory_is_refused(void **state)
{
	(void)state;
	weir_error err = {0};
	assert_null(device_open("cuda", 1, &err));
	assert_int_equal(err.status, WEIR_E_UNSUPPORTED);
	CHECK_CONTAINS(err.text, "cuda is there, but has memory of its own");
	CHECK_CONTAINS(err.text, "use device: cpu");
	assert_int_equal(device_check("cuda:0", NULL), WEIR_E_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(auto_and_cpu_are_the_cpu),
	    cmocka_unit_test(the_library_beside_the_program_is_opened),
	    cmocka_unit_test(a_device_that_is_not_there_is_refused_with_what_to_do),
	    cmocka_unit_test(a_device_of_another_memory_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
