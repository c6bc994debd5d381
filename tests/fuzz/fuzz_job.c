/* The job file of a stranger: refused with a sentence, or a job.
 *
 * Input: YAML; after a 0 byte, one --set. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 2);
	struct job *job = NULL;
	weir_error err = {0};
	assert(text);
	if (size)
		memcpy(text, data, size);
	text[size] = text[size + 1] = 0;
	const char *set = text + strlen(text) + 1;
	weir_status status = job_parse(text, "fuzz.yaml", &set, set < text + size, &job, &err);
	assert(status ? job == NULL && err.text[0] : job != NULL);
	job_destroy(job);
	free(text);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const char *const names[] = {"reference", "demo", "criteo-dlrm", "frappe-deepfm", "frappe-dcnv2", "frappe-lr"};
	static const char set[] = "\0data.batch=12";
	if (i >= sizeof names / sizeof *names)
		return NULL;
	char path[4096];
	snprintf(path, sizeof path, "%s/%s.yaml", CONFIG_DIR, names[i]);
	FILE *f = fopen(path, "r");
	uint8_t *out = malloc(65536);
	assert(f && out);
	size_t n = fread(out, 1, 60000, f);
	fclose(f);
	memcpy(out + n, set, sizeof set - 1);
	*size = n + sizeof set - 1;
	return out;
}
