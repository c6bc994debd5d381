/* Shared by the data tests: a temporary folder, files of every compression, jobs made in code,
 * datasets as text. */
#ifndef WEIR_TESTS_DATA_FIXTURE_H
#define WEIR_TESTS_DATA_FIXTURE_H

#include "tests/cmocka_check.h"

#include "worker/data/dataset.h"
#include "worker/data/format/text.h"

struct folder {
	char path[128];
};
/* *state: a struct folder; teardown removes the folder and its contents */
int folder_setup(void **state);
int folder_teardown(void **state);

/* Writes the file folder/name; returns path_out. */
char *write_bytes(const struct folder *f, const char *name, const void *data, size_t n, char path_out[256]);
char *write_compressed(const struct folder *f, const char *name, enum text_kind kind, const void *data, size_t n,
                       char path_out[256]);
/* Criteo lines of fixed pseudo-random content, malloc'ed; *bytes is their length. */
char *criteo_text(uint32_t lines, uint64_t seed, size_t *bytes);

/* A job over one pattern with its cache in folder/cache, batches of 8, units of 4 batches. Free
 * with job_of_free. */
struct job *job_of(const struct folder *f, enum data_format format, const char *pattern);
void job_of_free(struct job *job);

/* Opens this part of the job's data, without progress. */
struct dataset *open_part(const struct job *job, enum split_part part);
/* Every row of a dataset in order of unit and batch: one row a line, columns in hexadecimal.
 * malloc'ed. */
char *dataset_dump(struct dataset *d, uint64_t order_seed);
char *batch_dump(const struct batch *b);
uint64_t count_rows(const char *dump);
/* Memory that files take in this process. */
unsigned long file_kib(void);

#endif
