/* weir export --ids: the rows of one column of a keyed table, with their original ids. */
#ifndef WEIR_EXPORT_IDS_H
#define WEIR_EXPORT_IDS_H

#include "common/job/job.h"
#include "common/system/logger.h"

struct export_ids {
	const struct job *job;
	const char *column;  /* its name */
	const char *table;   /* "embedding" or "linear"; NULL: the first that the weights have */
	const char *weights; /* a safetensors file of snapshot_save */
	/* OUT.safetensors: a tensor, "values" (ids, width), and OUT.ids.csv beside it; OUT.parquet;
	 * else CSV */
	const char *out;
	struct logger *logger;
};

struct export_ids_result {
	uint64_t ids, rows; /* different ids in the data; those that have a row, which are written */
	uint32_t width;
};

/* The column of the job, which must have embeddings of its own. */
weir_status export_ids_check(const struct job *job, const char *column, weir_error *err) WEIR_MUST_CHECK;
weir_status export_ids(const struct export_ids *o, struct export_ids_result *result, weir_error *err) WEIR_MUST_CHECK;

#endif
