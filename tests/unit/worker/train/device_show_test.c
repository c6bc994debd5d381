/* The choice of a process's visible MIG instance. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "worker/train/job/device.h"

#define VISIBLE "CUDA_VISIBLE_DEVICES"

static void check_shown(const char *device, const char *before, uint32_t turn, const char *after)
{
	weir_error err = {0};
	struct job *job = NULL;
	char text[256];
	snprintf(text, sizeof text, "job: it\ndata: {train: x}\ndevice: '%s'\n", device);
	CHECK_OK(job_parse(text, "test", NULL, 0, &job, &err), err);
	if (before)
		setenv(VISIBLE, before, 1);
	else
		unsetenv(VISIBLE);
	device_show(job, turn);
	const char *visible = getenv(VISIBLE);
	if (after == NULL)
		assert_null(visible);
	else
		assert_string_equal(visible ? visible : "(none)", after);
	device_show(job, 0); /* the next program's turn */
	assert_string_equal(getenv(VISIBLE) ? getenv(VISIBLE) : "(none)", after ? after : "(none)");
	job_destroy(job);
}

static void the_instance_that_a_job_names_is_shown(void **state)
{
	(void)state;
	check_shown("cuda:MIG-1234", NULL, 0, "MIG-1234");
	check_shown("cuda:MIG-1234", "MIG-5678,MIG-1234", 3, "MIG-1234");
}

static void workers_turn_the_list_of_instances(void **state)
{
	(void)state;
	static const char *const devices[] = {"auto", "cuda"};
	for (int i = 0; i < 2; i++) {
		check_shown(devices[i], "MIG-a,MIG-b,MIG-c", 0, "MIG-a,MIG-b,MIG-c");
		check_shown(devices[i], "MIG-a,MIG-b,MIG-c", 1, "MIG-b,MIG-c,MIG-a");
		check_shown(devices[i], "MIG-a,MIG-b,MIG-c", 5, "MIG-c,MIG-a,MIG-b");
		check_shown(devices[i], "MIG-a", 7, "MIG-a");
	}
}

static void whole_devices_are_left_as_they_are(void **state)
{
	(void)state;
	check_shown("cuda", NULL, 1, NULL);
	check_shown("cuda", "1,0", 1, "1,0");
	check_shown("cuda:GPU-12", "GPU-12,GPU-34", 1, "GPU-12,GPU-34");
	check_shown("cuda:1", "MIG-a,MIG-b", 1, "MIG-a,MIG-b");
	check_shown("cpu", "MIG-a,MIG-b", 1, "MIG-a,MIG-b");
}

static void a_backend_is_opened_as_the_job_says(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *job = NULL;
	CHECK_OK(job_parse("job: it\ndata: {train: x}\ndevice: cuda\ntrain: {precision: bf16, device_memory: 2GiB}\n", "test", NULL,
	                   0, &job, &err),
	         err);
	const struct backend_options trains = device_options(job, 3, 2, true), scores = device_options(job, 4, 0, false);
	assert_string_equal(trains.device, "cuda");
	assert_int_equal(trains.precision, COMPUTE_BF16);
	assert_int_equal(trains.turn, 3);
	assert_int_equal(trains.threads, 2);
	assert_int_equal(trains.memory_bytes, (uint64_t)2 << 30);
	assert_int_equal(scores.precision, COMPUTE_FP32);
	assert_int_equal(scores.turn, 4);
	job_destroy(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_instance_that_a_job_names_is_shown),
	    cmocka_unit_test(workers_turn_the_list_of_instances),
	    cmocka_unit_test(whole_devices_are_left_as_they_are),
	    cmocka_unit_test(a_backend_is_opened_as_the_job_says),
	};
	return cmocka_run_group_tests_name("train_device_show", tests, NULL, NULL);
}
