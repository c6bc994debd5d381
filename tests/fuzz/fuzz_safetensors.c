/* A damaged safetensors file: refused, or tensors within its bytes.
 *
 * Input: the file. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/model/safetensors/safetensors.h"

static void read_all(const char *path)
{
	struct safetensors *s;
	weir_error err = {0};
	volatile uint8_t sum = 0;
	if (safetensors_open(&s, path, &err)) {
		assert(err.text[0]);
		return;
	}
	for (uint32_t i = 0; i < safetensors_count(s); i++) {
		const struct safetensor *t = safetensors_at(s, i);
		float x = 0;
		for (uint64_t b = 0; b < safetensor_bytes(t); b++)
			sum = (uint8_t)(sum + ((const uint8_t *)t->data)[b]);
		if (safetensor_is_real(t->type) && safetensor_elements(t) > 0)
			safetensor_floats(t, safetensor_elements(t) - 1, 1, &x);
		assert(safetensors_find(s, t->name) == t);
	}
	assert(!safetensors_find(s, "none") || safetensors_count(s) > 0);
	assert(safetensors_metadata(s, "format") && safetensors_metadata(s, "none"));
	safetensors_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	int fd = memfd_create("safetensors", MFD_CLOEXEC);
	assert(fd >= 0);
	const ssize_t wrote = write(fd, data, size);
	assert(wrote == (ssize_t)size);
	(void)wrote;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	read_all(path);
	close(fd);
	return 0;
}

/* The writer's files, and files that it would not write. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const float weights[6] = {1, 2, 3, 4, 5, 6};
	static const uint64_t keys[3] = {7, 8, 9};
	static const char *const headers[] = {
	    "{\"weights\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
	    "{\"weights\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}",
	    "{\"weights\":{\"dtype\":\"BOOL\",\"shape\":[2,2],\"data_offsets\":[0,4]}}",
	    "{\"weights\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
	    ("{\"weights\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]},"
	     "\"bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"),
	};
	uint8_t *out = malloc(4096);
	assert(out);
	if (i > sizeof headers / sizeof *headers) {
		free(out);
		return NULL;
	}
	if (i > 0) {
		const char *header = headers[i - 1];
		const uint64_t n = strlen(header);
		memcpy(out, &n, 8);
		memcpy(out + 8, header, n);
		memcpy(out + 8 + n, weights, 4);
		*size = 12 + n;
		return out;
	}
	char folder[] = "/tmp/weir-fuzz-XXXXXX", path[64];
	const struct safetensor tensors[] = {{.name = "weights", .type = SAFETENSOR_F32, .dims = 2, .shape = {2, 3}, .data = weights},
	                                     {.name = "keys", .type = SAFETENSOR_U64, .dims = 1, .shape = {3}, .data = keys}};
	static const char *const metadata[] = {"format", "weir", NULL};
	weir_error err = {0};
	const bool made = mkdtemp(folder) != NULL;
	snprintf(path, sizeof path, "%s/file", folder);
	const weir_status status = safetensors_write(disk_system(), path, tensors, 2, metadata, &err);
	FILE *f = fopen(path, "r");
	assert(made && status == WEIR_OK && f);
	(void)made, (void)status;
	*size = fread(out, 1, 4096, f);
	fclose(f);
	unlink(path);
	rmdir(folder);
	return out;
}
