/* The choice of a device on a machine, and the message if it is unusable, on the emulated
 * runtime. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "tests/cuda_host/cuda_host.h"

/* values of cudaComputeMode */
enum { PROHIBITED = 2, EXCLUSIVE_PROCESS = 3 };
/* values of cudaError_t */
enum { OUT_OF_MEMORY = 2, SYSTEM_NOT_READY = 802, MPS_CLIENTS_MAX = 808 };

#define INSTANCE "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
#define UUID(n)  "00000000-0000-0000-0000-00000000000" #n

static int ordinary_machine(void **state)
{
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cuda_host_ordinary(state);
}

/* Opens the device, checks the choice, and closes it. */
static void check_taken(const char *device, uint32_t turn, const char *expected)
{
	const struct backend_options o = {.device = device, .turn = turn};
	weir_error err = {0};
	CHECK_OK(weir_backend_cuda_check(&o, &err), err);
	struct backend *b = weir_backend_cuda_create(&o, &err);
	if (b == NULL)
		fail_msg("%s: %s", device, err.text);
	struct backend_info info;
	b->ops->info(b, &info);
	assert_string_equal(info.device, expected);
	b->ops->destroy(b);
}

static void check_refused_with(const struct backend_options *o, const char *why)
{
	weir_error err = {0};
	assert_null(weir_backend_cuda_create(o, &err));
	CHECK_CONTAINS(err.text, why);
	CHECK_CONTAINS(err.text, "device");
	assert_int_equal(cuda_host_allocated(), 0);
}

static void check_refused(const char *device, const char *why)
{
	check_refused_with(&(struct backend_options){.device = device}, why);
}

static void a_machine_without_a_device_is_told_what_to_do(void **state)
{
	(void)state;
	cuda_host.driver = 0;
	check_refused("cuda", "there is no NVIDIA driver here");
	cuda_host.driver = 12040;
	check_refused("cuda", "the driver is for CUDA 12.4, this program for 13.0); install driver 580 or later");
	cuda_host_reset();
	cuda_host.devices = 0;
	check_refused("cuda", "the driver shows none");
	cuda_host_reset();
	cuda_host.fail_call = "cudaGetDeviceCount";
	cuda_host.fail_code = SYSTEM_NOT_READY;
	check_refused("cuda", "system not yet initialized (cudaErrorSystemNotReady); the driver and what runs beside it");
	cuda_host.fail_code = MPS_CLIENTS_MAX;
	check_refused("cuda", "nvidia-cuda-mps-control");
}

static void a_device_is_taken_by_its_number_or_its_uuid(void **state)
{
	(void)state;
	cuda_host.devices = 3;
	check_taken("cuda:0", 0, "cuda:0 (emulated device)");
	check_taken("cuda:2", 1, "cuda:2 (emulated device)");
	check_taken("cuda:GPU-" UUID(1), 0, "cuda:1 (emulated device)");
	check_taken("cuda:gpu-" UUID(1), 0, "cuda:1 (emulated device)");
	check_refused("cuda:3", "no device cuda:3: the driver shows this process cuda:0 (emulated device, GPU-" UUID(
	                            0) "), cuda:1 (emulated "
	                               "device, GPU-" UUID(1) "), cuda:2 ");
	check_refused("cuda:GPU-" UUID(7), "no device cuda:GPU-" UUID(7));
	check_refused("cuda:GPU-0000", "is 3 devices: give more of the UUID");
	setenv("CUDA_VISIBLE_DEVICES", "GPU-" UUID(2) ",0", 1);
	check_taken("cuda:GPU-" UUID(0), 0, "cuda:1 (emulated device)");
	check_refused("cuda:GPU-" UUID(1), "no device");
	cuda_host.devices = 9;
	unsetenv("CUDA_VISIBLE_DEVICES");
	check_refused("cuda:99", "cuda:3 (emulated device, GPU-" UUID(3) ") and 5 more");
}

static void workers_take_devices_in_turn(void **state)
{
	(void)state;
	cuda_host.devices = 2;
	check_taken("cuda", 0, "cuda:0 (emulated device)");
	check_taken("cuda", 1, "cuda:1 (emulated device)");
	check_taken("cuda", 2, "cuda:0 (emulated device)");
	check_taken("auto", 3, "cuda:1 (emulated device)");
	cuda_host.devices = 1;
	check_taken("cuda", 5, "cuda:0 (emulated device)");
}

/* The driver shows a process only one instance. */
static void a_mig_instance_is_a_device(void **state)
{
	(void)state;
	cuda_host.devices = 3;
	cuda_host.name = INSTANCE;
	check_taken("cuda", 1, "cuda:0 (" INSTANCE ")");
	check_taken("cuda:MIG-" UUID(0), 0, "cuda:0 (" INSTANCE ")");
	check_refused("cuda:MIG-" UUID(2), "the driver shows this process cuda:0 (" INSTANCE ", MIG-" UUID(0) ")");
	check_refused("cuda:1", "no device cuda:1");
	setenv("CUDA_VISIBLE_DEVICES", "MIG-" UUID(2), 1);
	check_taken("cuda:MIG-" UUID(2), 0, "cuda:0 (" INSTANCE ")");
	check_refused("cuda:MIG-" UUID(0), "no device");
	/* a legacy name, different from the UUID, of the shown instance */
	setenv("CUDA_VISIBLE_DEVICES", "MIG-GPU-1234/2/0", 1);
	check_taken("cuda:MIG-GPU-1234/2/0", 0, "cuda:0 (" INSTANCE ")");
	check_refused("cuda:MIG-GPU-1234/1/0", "no device");
}

static void a_device_that_is_too_old_is_refused(void **state)
{
	(void)state;
	static const enum compute_precision ampere[] = {COMPUTE_TF32, COMPUTE_BF16};
	cuda_host.capability = 70;
	check_refused("cuda", "cuda:0 (emulated device) has compute capability 7.0; 7.5 is needed");
	cuda_host.capability = 75;
	check_taken("cuda", 0, "cuda:0 (emulated device)");
	for (size_t i = 0; i < 2; i++) {
		char why[128];
		snprintf(why, sizeof why, "compute capability 7.5; train.precision: %s needs 8.0: use fp16 or fp32",
		         compute_precision_name(ampere[i]));
		check_refused_with(&(struct backend_options){.device = "cuda", .precision = ampere[i]}, why);
	}
	weir_error err = {0};
	CHECK_OK(weir_backend_cuda_check(&(struct backend_options){.device = "cuda", .precision = COMPUTE_FP16}, &err), err);
}

static void a_device_that_others_have_is_refused(void **state)
{
	(void)state;
	weir_error err = {0};
	cuda_host.compute_mode = PROHIBITED;
	check_refused("cuda", "cuda:0 (emulated device) is in compute mode prohibited, in which nobody may compute on it: "
	                      "`nvidia-smi -i 0 -c DEFAULT`");
	cuda_host.compute_mode = EXCLUSIVE_PROCESS;
	check_taken("cuda", 0, "cuda:0 (emulated device)");
	cuda_host.taken = true;
	check_refused("cuda", "cuda:0 (emulated device) is in exclusive-process mode, and another process has it");
	/* a check allocates nothing, so it cannot detect this */
	CHECK_OK(weir_backend_cuda_check(&(struct backend_options){.device = "cuda"}, &err), err);
	cuda_host_reset();
	cuda_host.memory_taken = (size_t)200 << 20;
	check_refused("cuda", "cuda:0 (emulated device) has 56.0 MiB free of 256.0 MiB, and 64 MiB are needed at least");
	cuda_host.fail_call = "cudaSetDevice";
	cuda_host.fail_code = OUT_OF_MEMORY;
	check_refused("cuda", "cuda:0 (emulated device) has no memory left for one more program (cudaSetDevice: out of memory)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(a_machine_without_a_device_is_told_what_to_do, ordinary_machine),
	    cmocka_unit_test_setup(a_device_is_taken_by_its_number_or_its_uuid, ordinary_machine),
	    cmocka_unit_test_setup(workers_take_devices_in_turn, ordinary_machine),
	    cmocka_unit_test_setup(a_mig_instance_is_a_device, ordinary_machine),
	    cmocka_unit_test_setup(a_device_that_is_too_old_is_refused, ordinary_machine),
	    cmocka_unit_test_setup(a_device_that_others_have_is_refused, ordinary_machine),
	};
	return cmocka_run_group_tests_name("cuda_device", tests, NULL, NULL);
}
