/* Damaged files in a run's folder: run.json, evaluation.json, and the ground truth of a generated
 * file. They are refused with a sentence, or written again, and then read and written alike.
 *
 * Input: u8 file, its bytes. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/run_state.h"
#include "common/system/disk.h"
#include "worker/data/columns/ground_truth.h"
#include "worker/train/score/evaluation.h"

enum { RUN, EVALUATION, TRUTH, KINDS };
#define FILE_BYTES_MAX (1u << 20)

static const char *const names[] = {"run.json", "evaluation.json", "data.truth.json"};
static char folder[] = "/tmp/weir-fuzz-XXXXXX", path[sizeof folder + 32], data_path[sizeof folder + 8];

static void remove_folder(void)
{
	for (uint32_t i = 0; i < KINDS; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(folder);
}

/* Writes to `path`. */
static void write_file(uint8_t kind, const uint8_t *data, size_t n)
{
	static bool made;
	if (!made) {
		const bool there = mkdtemp(folder) && atexit(remove_folder) == 0;
		assert(there);
		made = there;
		snprintf(data_path, sizeof data_path, "%s/data", folder);
	}
	snprintf(path, sizeof path, "%s/%s", folder, names[kind]);
	FILE *f = fopen(path, "w");
	const bool written = f && (n == 0 || fwrite(data, 1, n, f) == n) && fclose(f) == 0;
	assert(written);
	(void)written;
}

static char *read_file(size_t *n)
{
	char *text = NULL;
	const weir_status status = disk_read_file(disk_system(), path, FILE_BYTES_MAX, &text, n, NULL);
	assert(status == WEIR_OK);
	(void)status;
	return text;
}

/* Reads `path`, and writes it again if it was accepted. */
static weir_status again(uint8_t kind, weir_error *err)
{
	static const struct job job;
	struct run_state run;
	struct evaluation e;
	struct ground_truth t;
	struct generate_options o = {.path = data_path};
	weir_status status;
	switch (kind) {
	case RUN:
		status = run_state_read(folder, &run, err);
		return status ? status : run_state_write(folder, &run, err);
	case EVALUATION:
		status = evaluation_read(&e, &job, path, err);
		if (!status) {
			evaluation_forget(&e, &job, UINT32_MAX);
			(void)evaluation_is_over(&e, &job);
			status = evaluation_write(&e, path, err);
		}
		evaluation_destroy(&e);
		return status;
	default:
		status = ground_truth_read(data_path, NULL, &t, err);
		return status ? status : ground_truth_write(&o, &t, err);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > FILE_BYTES_MAX)
		return 0;
	const uint8_t kind = data[0] % KINDS;
	weir_error err = {0};
	write_file(kind, data + 1, size - 1);
	if (again(kind, &err)) {
		assert(err.text[0]);
		return 0;
	}
	size_t n, m;
	char *first = read_file(&n);
	const weir_status status = again(kind, &err);
	char *second = read_file(&m);
	assert(status == WEIR_OK && n == m && memcmp(first, second, n) == 0);
	(void)status;
	free(first);
	free(second);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static struct evaluated_pass passes[] = {{0, {0.7, 0.5}, 0}, {1, {0.75, (double)NAN}, 0}};
	const uint8_t kind = (uint8_t)i;
	weir_status status;
	if (i >= KINDS)
		return NULL;
	write_file(kind, NULL, 0);
	if (kind == RUN) {
		status =
		    run_state_write(folder, &(struct run_state){.uuid = {1, 2}, .generation = 2, .restore = "ck-1", .servers = 2}, NULL);
	} else if (kind == TRUTH) {
		const struct generate_scores s = {.rows = 100, .clicks = 20, .auc = 0.75, .logloss = 0.4, .auc_expected = (double)NAN};
		status = ground_truth_write(&(struct generate_options){.path = data_path, .rows = 100, .ids = 50},
		                            &(struct ground_truth){.ids = 50, .bytes = 4000, .all = s, .train = s}, NULL);
	} else {
		const struct evaluation e = {.passes = passes,
		                             .passes_count = 2,
		                             .has_best = true,
		                             .best_pass = 1,
		                             .has_valid = true,
		                             .valid = {.auc = 0.75, .logloss = 0.4, .calibration = 1, .rows = 10}};
		status = evaluation_write(&e, path, NULL);
	}
	assert(status == WEIR_OK);
	(void)status;
	size_t n;
	char *text = read_file(&n);
	uint8_t *seed = malloc(n + 1);
	assert(seed);
	seed[0] = kind;
	memcpy(seed + 1, text, n);
	*size = n + 1;
	free(text);
	return seed;
}
