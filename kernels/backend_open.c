/* Opens a backend by name. CUDA is a shared object, libweir_cuda.so, looked for beside the program and in lib/ next to it;
 * nothing else links CUDA. It exports
 *     struct backend *weir_backend_cuda_create(uint32_t device, weir_error *err);
 *     const struct backend_ops *weir_backend_cuda_ops(void);      its table, also where there is no device */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "cublas_places.h"
#include "limits.h"

#define CUDA_LIBRARY "libweir_cuda.so"
#define CUDA_DRIVER  "libcuda.so.1"
#define CUDA_ENTRY   "weir_backend_cuda_create"

typedef struct backend *(*cuda_create_fn)(uint32_t device, weir_error *err);

/* The program's folder without the last slash; "." when it cannot be told. */
static void program_folder(char *out, size_t bytes)
{
	ssize_t n = readlink("/proc/self/exe", out, bytes - 1);
	out[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(out, '/');
	if (slash == NULL)
		snprintf(out, bytes, ".");
	else
		*slash = '\0';
}

/* Without the driver there is no device, and no need to load CUDA's libraries, which are large. */
static bool has_driver(void)
{
	void *driver = dlopen(CUDA_DRIVER, RTLD_LAZY | RTLD_LOCAL);
	if (driver != NULL)
		dlclose(driver);
	return driver != NULL;
}

/* NULL: `reason` says why. */
static void *open_at(const char *path, char *reason, size_t bytes)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library != NULL)
		return library;
	snprintf(reason, bytes, "%s", dlerror());
	if (cublas_open(reason) && (library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL)
		snprintf(reason, bytes, "%s", dlerror());
	return library;
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
	program_folder(folder, sizeof folder);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s/%s" CUDA_LIBRARY, folder, places[i]);
		void *library = access(path, F_OK) == 0 ? open_at(path, reason, sizeof reason) : NULL;
		if (library != NULL)
			return library;
	}
	refuse(folder, reason, err);
	return NULL;
}

/* The library stays open: the backend's code is in it. */
static struct backend *open_cuda(uint32_t device, weir_error *err)
{
	void *library = open_library(err);
	if (library == NULL)
		return NULL;
	cuda_create_fn create;
	void *symbol = dlsym(library, CUDA_ENTRY);
	if (symbol == NULL) {
		weir_fail(err, WEIR_E_UNSUPPORTED, "no CUDA backend found: %s has no %s; use device: cpu", CUDA_LIBRARY, CUDA_ENTRY);
		dlclose(library);
		return NULL;
	}
	memcpy(&create, &symbol, sizeof create);
	struct backend *b = create(device, err);
	if (b == NULL)
		dlclose(library);
	return b;
}

struct backend *backend_open(const char *device, uint32_t threads, weir_error *err)
{
	if (strcmp(device, "cpu") == 0)
		return backend_cpu_create(threads, err);
	if (strcmp(device, "cuda") == 0)
		return open_cuda(0, err);
	if (strcmp(device, "auto") == 0) {
		struct backend *b = has_driver() ? open_cuda(0, NULL) : NULL;
		return b != NULL ? b : backend_cpu_create(threads, err);
	}
	if (strncmp(device, "cuda:", 5) == 0 && device[5] >= '0' && device[5] <= '9') {
		char *end;
		unsigned long n = strtoul(device + 5, &end, 10);
		if (*end == '\0' && n <= UINT32_MAX)
			return open_cuda((uint32_t)n, err);
	}
	weir_fail(err, WEIR_E_INVALID, "device is \"%s\"; expected auto, cpu, cuda or cuda:N", device);
	return NULL;
}

weir_status backend_check(const char *device, weir_error *err)
{
	weir_error why = {0};
	struct backend *b = backend_open(device, 1, &why);
	if (b == NULL)
		return weir_fail(err, why.status, "%s", why.text);
	b->ops->destroy(b);
	return WEIR_OK;
}
