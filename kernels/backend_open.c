/* Opens a backend by name. CUDA is a shared object, libweir_cuda.so, in the program's folder or in
 * lib/ or ../lib/ beside it; nothing else links CUDA. It exports three functions:
 * weir_backend_cuda_create and weir_backend_cuda_check, of the types below, for all devices whose
 * names begin with "cuda", and for "auto"; and weir_backend_cuda_ops, its table, also without a
 * device. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/system/process.h"
#include "kernels/backend.h"
#include "kernels/cublas_places.h"

#define CUDA_LIBRARY "libweir_cuda.so"
#define CUDA_DRIVER  "libcuda.so.1"
#define CUDA_CREATE  "weir_backend_cuda_create"
#define CUDA_CHECK   "weir_backend_cuda_check"

typedef struct backend *(*cuda_create_fn)(const struct backend_options *options, weir_error *err);
typedef weir_status (*cuda_check_fn)(const struct backend_options *options, weir_error *err);

/* Without the driver there is no device; CUDA's libraries, which are large, then need not be
 * loaded. */
static bool has_driver(void)
{
	void *driver = dlopen(CUDA_DRIVER, RTLD_LAZY | RTLD_LOCAL);
	if (driver)
		dlclose(driver);
	return driver != NULL;
}

/* The library stays in memory: it contains the CUDA runtime, whose threads, and whose callbacks in
 * the driver and in exit(), would otherwise call unloaded code. NULL: `reason` says why. */
static void *open_at(const char *path, char *reason, size_t bytes)
{
	for (unsigned missing = 0; missing <= CUBLAS_LIBRARIES; missing++) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		if (library)
			return library;
		snprintf(reason, bytes, "%s", dlerror());
		if (!cublas_open(reason))
			break;
	}
	return NULL;
}

static void refuse(const char *folder, const char *reason, weir_error *err)
{
	if (reason[0] == '\0')
		weir_fail(err, WEIR_E_UNSUPPORTED, "no CUDA backend found: %s is not in %s: build it where nvcc is, or use device: cpu",
		          CUDA_LIBRARY, folder);
	else if (!has_driver())
		weir_fail(err, WEIR_E_UNSUPPORTED,
		          "no CUDA device: there is no NVIDIA driver here (%s is not found); install it, or use device: cpu",
		          CUDA_DRIVER);
	else if (cublas_is_missing(reason))
		weir_fail(err, WEIR_E_UNSUPPORTED,
		          "no CUDA backend found: %s: install cuBLAS (it is in the CUDA toolkit, and in PyTorch's packages), set "
		          "LD_LIBRARY_PATH to the folder that it is in, or use device: cpu",
		          reason);
	else
		weir_fail(err, WEIR_E_UNSUPPORTED, "no CUDA backend found: %s: install the CUDA libraries, or use device: cpu", reason);
}

static void *open_library(weir_error *err)
{
	static const char *const places[] = {"", "lib/", "../lib/"};
	char folder[WEIR_PATH_BYTES_MAX], path[WEIR_PATH_BYTES_MAX + sizeof CUDA_LIBRARY + 16], reason[256] = "";
	process_program_folder(folder, sizeof folder);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s/%s" CUDA_LIBRARY, folder, places[i]);
		void *library = access(path, F_OK) == 0 ? open_at(path, reason, sizeof reason) : NULL;
		if (library)
			return library;
	}
	refuse(folder, reason, err);
	return NULL;
}

/* Stores the library's function `name` in *function, a pointer to a function. Returns the library,
 * or NULL. */
static void *open_function(const char *name, void *function, weir_error *err)
{
	void *library = open_library(err);
	if (!library)
		return NULL;
	void *symbol = dlsym(library, name);
	if (!symbol) {
		weir_fail(err, WEIR_E_UNSUPPORTED, "no CUDA backend found: %s has no %s; use device: cpu", CUDA_LIBRARY, name);
		dlclose(library);
		return NULL;
	}
	memcpy(function, &symbol, sizeof symbol);
	return library;
}

/* The library stays open: it contains the backend's code. */
static struct backend *open_cuda(const struct backend_options *options, weir_error *err)
{
	cuda_create_fn create;
	void *library = open_function(CUDA_CREATE, &create, err);
	struct backend *b = library ? create(options, err) : NULL;
	if (!b && library)
		dlclose(library);
	return b;
}

static weir_status check_cuda(const struct backend_options *options, weir_error *err)
{
	cuda_check_fn check;
	void *library = open_function(CUDA_CHECK, &check, err);
	if (!library)
		return WEIR_E_UNSUPPORTED;
	const weir_status status = check(options, err);
	dlclose(library);
	return status;
}

/* --- By name */

enum place { PLACE_CPU, PLACE_CUDA, PLACE_AUTO, PLACE_NONE };

static enum place place_of(const char *device)
{
	if (strcmp(device, "cpu") == 0)
		return PLACE_CPU;
	if (strcmp(device, "auto") == 0)
		return PLACE_AUTO;
	if (strcmp(device, "cuda") == 0)
		return PLACE_CUDA;
	if (strncmp(device, "cuda:", 5) != 0)
		return PLACE_NONE;
	const char *which = device + 5;
	if (strncmp(which, "GPU-", 4) == 0 || strncmp(which, "MIG-", 4) == 0)
		return which[4] != '\0' ? PLACE_CUDA : PLACE_NONE;
	const size_t digits = strspn(which, "0123456789");
	return digits > 0 && digits < 10 && which[digits] == '\0' ? PLACE_CUDA : PLACE_NONE;
}

static weir_status no_such_place(const struct backend_options *o, weir_error *err)
{
	return weir_fail(err, WEIR_E_INVALID, "device is \"%s\"; expected auto, cpu, cuda, cuda:N, cuda:GPU-... or cuda:MIG-...",
	                 o->device);
}

/* The CPU has one precision. why: the reason for no device; NULL if no device was requested. */
static weir_status check_cpu(const struct backend_options *o, const char *why, weir_error *err)
{
	const char *precision = compute_precision_name(o->precision);
	if (o->precision == COMPUTE_FP32)
		return WEIR_OK;
	if (!why)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "train.precision is %s, which the CPU does not compute: use fp32, or device: cuda", precision);
	return weir_fail(err, WEIR_E_UNSUPPORTED,
	                 "train.precision is %s, which the CPU does not compute, and device: auto finds no other: %s", precision,
	                 why);
}

static struct backend *open_cpu(const struct backend_options *o, const char *why, weir_error *err)
{
	return check_cpu(o, why, err) == WEIR_OK ? backend_cpu_create(o->threads, err) : NULL;
}

#define NO_DRIVER "there is no NVIDIA driver here (" CUDA_DRIVER ")"

struct backend *backend_open(const struct backend_options *o, weir_error *err)
{
	weir_error why = {.text = NO_DRIVER};
	struct backend *b;
	switch (place_of(o->device)) {
	case PLACE_CPU:
		return open_cpu(o, NULL, err);
	case PLACE_CUDA:
		return open_cuda(o, err);
	case PLACE_AUTO:
		b = has_driver() ? open_cuda(o, &why) : NULL;
		return b ? b : open_cpu(o, why.text, err);
	case PLACE_NONE:
		break;
	}
	no_such_place(o, err);
	return NULL;
}

weir_status backend_check(const struct backend_options *o, weir_error *err)
{
	weir_error why = {.text = NO_DRIVER};
	switch (place_of(o->device)) {
	case PLACE_CPU:
		return check_cpu(o, NULL, err);
	case PLACE_CUDA:
		return check_cuda(o, err);
	case PLACE_AUTO:
		return has_driver() && check_cuda(o, &why) == WEIR_OK ? WEIR_OK : check_cpu(o, why.text, err);
	case PLACE_NONE:
		break;
	}
	return no_such_place(o, err);
}
