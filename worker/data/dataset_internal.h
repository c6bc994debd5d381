/* The internals of a dataset, shared by dataset*.c, which open it and cut it into units, and
 * unit.c, which reads the units. */
#ifndef WEIR_DATASET_INTERNAL_H
#define WEIR_DATASET_INTERNAL_H

#include <pthread.h>

#include "worker/data/dataset.h"
#include "worker/data/format/column_scales.h"
#include "worker/data/format/load.h"
#include "worker/data/format/packed.h"
#include "worker/data/format/sources.h"
#include "worker/data/format/table_layout.h"
#include "worker/data/tokens/corpus.h"
#include "worker/data/tokens/sequences.h"
#include "worker/data/tokens/token_file.h"

/* A unit: rows [begin, end) of packed file `file`, the lines that begin in these bytes of source
 * `file`, or such a range of a corpus's examples or of sequences. */
struct unit_range {
	uint32_t file;
	uint64_t begin, end;
};

struct dataset {
	struct dataset_info info;
	enum split_part part;
	const struct dataset_scored *scored; /* only while opening; NULL: for training or evaluation */
	uint32_t batch;
	uint64_t unit_rows;
	struct parser *parser;       /* criteo, libsvm, libffm and tables; else NULL */
	struct table_layout *layout; /* of data.columns; else NULL */
	struct load_options load;
	struct sources sources;
	struct packed **packed; /* (packed_count); click data without any are read from text */
	uint32_t packed_count;
	struct corpus *corpus;           /* text data; else NULL */
	struct token_file **token_files; /* (token_files_count) */
	uint32_t token_files_count;
	struct sequences *sequences; /* token data; else NULL */
	struct unit_range *units;    /* (info.units) */
	struct column_scales scales;
	uint32_t units_capacity;
	/* Memory of a closed unit of text, for the next one. */
	pthread_mutex_t spare_lock;
	struct rows spare;
};

/* Opens the training part without scaling its numbers: an empty cell of a column to scale is
 * NaN. */
weir_status dataset_open_unscaled(struct dataset **out, const struct job *job, struct logger *logger, weir_error *err);
/* Opens the token data of a dataset whose sources are found. */
weir_status dataset_open_tokens(struct dataset *d, const struct job *job, weir_error *err);
/* Cuts the text of click data into units. */
weir_status dataset_cut_text(struct dataset *d, const struct job *job, weir_error *err);
weir_status dataset_add_unit(struct dataset *d, uint32_t file, uint64_t begin, uint64_t end, weir_error *err);
/* Returns the folder of the job's caches. */
void dataset_cache_dir(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 16]);
/* Cuts the range of `rows` rows into units. */
weir_status dataset_cut_rows(struct dataset *d, uint64_t rows, weir_error *err);
extern const char *const dataset_part_names[];

#endif
