#include "kernels/cublas_places.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"

#define LIBRARY_PREFIX "libcublas"
#define NAME_BYTES     64u

/* %s: the library. CUDA's own folders, and the usual places of PyTorch's packages of CUDA
 * libraries. */
static const char *const places[] = {
    "/usr/local/cuda/lib64/%s",
    "/usr/local/cuda-*/lib64/%s",
    "/opt/cuda/lib64/%s",
    "/usr/lib/python3*/*-packages/nvidia/*/lib/%s",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib/%s",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib/%s",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib/%s",
};

/* "libcublas.so.13: cannot open shared object file: ..." names the library first. */
static bool library_named(const char *reason, char out[NAME_BYTES])
{
	const size_t n = strcspn(reason, ":");
	if (strncmp(reason, LIBRARY_PREFIX, strlen(LIBRARY_PREFIX)) != 0 || reason[n] == '\0' || n >= NAME_BYTES)
		return false;
	memcpy(out, reason, n);
	out[n] = '\0';
	return true;
}

bool cublas_is_missing(const char *reason)
{
	char library[NAME_BYTES];
	return library_named(reason, library);
}

static bool open_one(const char *pattern)
{
	glob_t found;
	bool opened = false;
	if (glob(pattern, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc && !opened; i++)
		opened = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL) != NULL;
	globfree(&found);
	return opened;
}

bool cublas_open(const char *reason)
{
	char library[NAME_BYTES], pattern[WEIR_PATH_BYTES_MAX];
	if (!library_named(reason, library))
		return false;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(pattern, sizeof pattern, places[i], library);
		if (open_one(pattern))
			return true;
	}
	return false;
}
