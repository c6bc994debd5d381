/* read_rows JOB.yaml: reads the training part of a job, unit by unit, and prints its rows and the
 * seconds of processor time that this took, for tests/claims/data 1. */
#include <stdio.h>
#include <time.h>

#include "common/job/job.h"
#include "worker/data/dataset.h"

static weir_status read_unit(struct dataset *d, uint32_t unit, struct batch *batch, uint64_t *rows, weir_error *err)
{
	struct unit_reader *u = NULL;
	weir_status status = unit_open(&u, d, unit, 0, err);
	for (uint32_t i = 0; status == WEIR_OK && i < unit_batches(u); i++) {
		status = unit_read(u, i, batch, err);
		*rows += batch->rows;
	}
	if (u)
		unit_close(u);
	return status;
}

int main(int count, char **args)
{
	struct job *job = NULL;
	struct dataset *d = NULL;
	struct batch batch = {0};
	weir_error err = {0};
	uint64_t rows = 0;
	if (count != 2) {
		fprintf(stderr, "usage: read_rows JOB.yaml\n");
		return 2;
	}
	weir_status status = job_load(args[1], NULL, 0, &job, &err);
	if (status == WEIR_OK)
		status = dataset_open(&d, job, SPLIT_TRAIN, NULL, &err);
	const clock_t begin = clock();
	for (uint32_t u = 0; status == WEIR_OK && u < dataset_get_info(d)->units; u++)
		status = read_unit(d, u, &batch, &rows, &err);
	const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
	batch_destroy(&batch);
	dataset_close(d);
	job_destroy(job);
	if (status != WEIR_OK) {
		fprintf(stderr, "read_rows: %s\n", err.text);
		return 1;
	}
	printf("%llu %.3f\n", (unsigned long long)rows, seconds);
	return 0;
}
