/* Inside of a dataset, shared by dataset.c, which cuts it into units, dataset_tokens.c, for tokens, and unit.c, which reads them. */
#ifndef WEIR_DATASET_INTERNAL_H
#define WEIR_DATASET_INTERNAL_H

#include "worker/data/dataset.h"
#include "worker/data/format/load.h"
#include "worker/data/format/packed.h"
#include "worker/data/format/sources.h"
#include "worker/data/tokens/corpus.h"
#include "worker/data/tokens/sequences.h"
#include "worker/data/tokens/token_file.h"

/* Rows [begin, end) of packed file `file`, or the lines that begin in these bytes of source `file`, or examples of the corpus. */
struct unit_range {
	uint32_t file;
	uint64_t begin, end;
};

struct dataset {
	struct dataset_info info;
	enum split_part part;
	const struct dataset_scored *scored; /* while it is opened; NULL: to train on, or to evaluate with */
	uint32_t batch;
	uint64_t unit_rows;
	struct parser *parser; /* text */
	struct load_options load;
	struct sources sources;
	struct packed **packed; /* (packed_count); none: text units */
	uint32_t packed_count;
	struct corpus *corpus;           /* text; else NULL */
	struct token_file **token_files; /* (token_files_count) */
	uint32_t token_files_count;
	struct sequences *sequences; /* tokens; else NULL */
	struct unit_range *units;    /* (info.units) */
	uint32_t units_capacity;
};

/* Fills a dataset of tokens whose sources are found. */
weir_status dataset_open_tokens(struct dataset *d, const struct job *job, weir_error *err);
/* The folder of the job's caches. */
void dataset_cache_dir(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 16]);
/* Units of exact ranges over so many rows. */
weir_status dataset_cut_rows(struct dataset *d, uint64_t rows, weir_error *err);
extern const char *const dataset_part_names[];

#endif
