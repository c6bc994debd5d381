/* Chooses among the devices that the driver shows this process, and checks that the backend runs on
 * it. The choice makes no context: a context takes memory of the device, and the whole device in
 * exclusive-process mode.
 *
 * MIG. To the runtime an instance is a device, with a name and a UUID of its own. But the driver
 * shows a process only one instance, the first that it may use or that CUDA_VISIBLE_DEVICES names,
 * and no whole devices beside it (NVIDIA's MIG user guide, "CUDA device enumeration"). The instance
 * must be chosen before the first call to the driver: worker/train/job/device.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/cuda/cuda.h"

#define DRIVER_FOR_RUNTIME "580" /* the first driver that CUDA 13 runs on */
#define UUID_BYTES         41u   /* of "GPU-" and 32 digits in five groups */
#define DEVICES_LISTED     4     /* in the error if the requested device is missing */

static weir_status no_driver(cudaError_t code, weir_error *err)
{
	int driver = 0, runtime = 0;
	cudaDriverGetVersion(&driver);
	cudaRuntimeGetVersion(&runtime);
	if (driver == 0)
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "no CUDA device: there is no NVIDIA driver here (cudaGetDeviceCount: %s); install driver %s or later, or use "
		    "device: cpu",
		    cudaGetErrorString(code), DRIVER_FOR_RUNTIME);
	if (driver < runtime)
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "no CUDA device: cudaGetDeviceCount: %s (the driver is for CUDA %d.%d, this program for %d.%d); install driver %s "
		    "or later, or use device: cpu",
		    cudaGetErrorString(code), driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, DRIVER_FOR_RUNTIME);
	return weir_fail(err, WEIR_E_UNSUPPORTED, "no CUDA device: cudaGetDeviceCount: %s (%s); %s", cudaGetErrorString(code),
	                 cudaGetErrorName(code), cuda_remedy(code));
}

static weir_status count_devices(int *count, weir_error *err)
{
	const cudaError_t code = cudaGetDeviceCount(count);
	if (code == cudaErrorNoDevice || (code == cudaSuccess && *count == 0))
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "no CUDA device: the driver shows none (cudaGetDeviceCount: %s); see what nvidia-smi and CUDA_VISIBLE_DEVICES "
		    "say, or use device: cpu",
		    cudaGetErrorString(cudaErrorNoDevice));
	return code == cudaSuccess ? WEIR_OK : no_driver(code, err);
}

static bool is_instance(const struct cudaDeviceProp *p)
{
	return strstr(p->name, " MIG ") != NULL;
}

static void write_uuid(const struct cudaDeviceProp *p, char out[UUID_BYTES])
{
	int n = snprintf(out, UUID_BYTES, "%s", is_instance(p) ? "MIG-" : "GPU-");
	for (unsigned i = 0; i < 16; i++)
		n += snprintf(out + n, UUID_BYTES - (size_t)n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
		              (unsigned char)p->uuid.bytes[i]);
}

/* The existing devices: "cuda:0 (NVIDIA H200, GPU-...), cuda:1 ...". */
static void list_devices(int count, char *out, size_t bytes)
{
	size_t n = 0;
	for (int i = 0; i < count && i < DEVICES_LISTED && n < bytes; i++) {
		struct cudaDeviceProp p;
		char uuid[UUID_BYTES] = "?";
		const bool known = cudaGetDeviceProperties(&p, i) == cudaSuccess;
		if (known)
			write_uuid(&p, uuid);
		n += (size_t)snprintf(out + n, bytes - n, "%scuda:%d (%s, %s)", i > 0 ? ", " : "", i, known ? p.name : "?", uuid);
	}
	if (count > DEVICES_LISTED && n < bytes)
		snprintf(out + n, bytes - n, " and %d more", count - DEVICES_LISTED);
}

static weir_status not_there(const char *device, int count, weir_error *err)
{
	char all[WEIR_ERROR_TEXT_BYTES / 2];
	list_devices(count, all, sizeof all);
	return weir_fail(err, WEIR_E_UNSUPPORTED,
	                 "no device %s: the driver shows this process %s; choose one that is there, see what nvidia-smi -L and "
	                 "CUDA_VISIBLE_DEVICES say, or use device: cpu",
	                 device, all);
}

/* Whether the only visible device is the requested instance: older names of instances are not their
 * UUIDs. */
static bool is_shown_alone(const char *name, int count)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	return count == 1 && strncmp(name, "MIG-", 4) == 0 && visible && strcmp(visible, name) == 0;
}

static weir_status find_by_uuid(const char *device, const char *name, int count, int *out, weir_error *err)
{
	int found = 0;
	for (int i = 0; i < count; i++) {
		struct cudaDeviceProp p;
		char uuid[UUID_BYTES];
		if (cudaGetDeviceProperties(&p, i) != cudaSuccess)
			continue;
		write_uuid(&p, uuid);
		if (strncasecmp(uuid, name, strlen(name)) != 0)
			continue;
		*out = i;
		found++;
	}
	if (found == 0 && is_shown_alone(name, count)) {
		*out = 0;
		found = 1;
	}
	if (found > 1)
		return weir_fail(err, WEIR_E_INVALID, "device %s is %d devices: give more of the UUID that nvidia-smi -L shows", device,
		                 found);
	return found == 1 ? WEIR_OK : not_there(device, count, err);
}

/* options->device has the form that backend_open expects. */
static weir_status choose(const struct backend_options *options, int *out, weir_error *err)
{
	int count = 0;
	const weir_status status = count_devices(&count, err);
	if (status != WEIR_OK)
		return status;
	const char *which = strchr(options->device, ':');
	if (!which) { /* any */
		*out = (int)(options->turn % (unsigned)count);
		return WEIR_OK;
	}
	which++;
	if (which[0] < '0' || which[0] > '9')
		return find_by_uuid(options->device, which, count, out, err);
	const unsigned long number = strtoul(which, NULL, 10);
	if (number >= (unsigned long)count)
		return not_there(options->device, count, err);
	*out = (int)number;
	return WEIR_OK;
}

static weir_status check_capability(const struct cuda_device *d, enum compute_precision precision, weir_error *err)
{
	if (d->capability < CUDA_CAPABILITY_MIN)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s has compute capability %d.%d; %d.%d is needed: choose another device, or use device: cpu", d->name,
		                 d->capability / 10, d->capability % 10, CUDA_CAPABILITY_MIN / 10, CUDA_CAPABILITY_MIN % 10);
	const bool ampere = precision == COMPUTE_TF32 || precision == COMPUTE_BF16;
	if (ampere && d->capability < CUDA_CAPABILITY_BF16)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s has compute capability %d.%d; train.precision: %s needs %d.%d: use fp16 or fp32, or another device",
		                 d->name, d->capability / 10, d->capability % 10, compute_precision_name(precision),
		                 CUDA_CAPABILITY_BF16 / 10, CUDA_CAPABILITY_BF16 % 10);
	return WEIR_OK;
}

weir_status cuda_device_find(struct cuda_device *out, const struct backend_options *options, weir_error *err)
{
	struct cudaDeviceProp p;
	int mode = cudaComputeModeDefault;
	weir_status status = choose(options, &out->number, err);
	if (status != WEIR_OK)
		return status;
	cudaError_t code = cudaGetDeviceProperties(&p, out->number);
	if (code == cudaSuccess)
		code = cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, out->number);
	if (code != cudaSuccess)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "cuda:%d: its properties: %s; %s", out->number, cudaGetErrorString(code),
		                 cuda_remedy(code));
	snprintf(out->name, sizeof out->name, "cuda:%d (%s)", out->number, p.name);
	out->capability = 10 * p.major + p.minor;
	out->exclusive = mode == cudaComputeModeExclusiveProcess;
	if (mode == cudaComputeModeProhibited)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s is in compute mode prohibited, in which nobody may compute on it: `nvidia-smi -i %d -c DEFAULT` as "
		                 "root ends that; or choose another device, or use device: cpu",
		                 out->name, out->number);
	return check_capability(out, options->precision, err);
}

weir_status cuda_device_open(const struct cuda_device *d, weir_error *err)
{
	const cudaError_t code = cudaSetDevice(d->number); /* makes the context */
	if (code == cudaSuccess)
		return WEIR_OK;
	(void)cudaGetLastError(); /* else the next launch would report it */
	if (d->exclusive && (code == cudaErrorDevicesUnavailable || code == cudaErrorDeviceAlreadyInUse))
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s is in exclusive-process mode, and another process has it (cudaSetDevice: %s): give each worker a "
		                 "device of its own, end that process (nvidia-smi shows it), or use device: cpu",
		                 d->name, cudaGetErrorString(code));
	if (code == cudaErrorMemoryAllocation)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s has no memory left for one more program (cudaSetDevice: %s): end others on it (nvidia-smi shows "
		                 "them), choose another device, or use device: cpu",
		                 d->name, cudaGetErrorString(code));
	return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: cudaSetDevice: %s (%s); %s", d->name, cudaGetErrorString(code),
	                 cudaGetErrorName(code), cuda_remedy(code));
}
