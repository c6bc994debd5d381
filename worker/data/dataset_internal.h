/* Inside of a dataset, shared by dataset.c, which cuts it into units, and unit.c, which reads them. */
#ifndef WEIR_DATASET_INTERNAL_H
#define WEIR_DATASET_INTERNAL_H

#include "corpus.h"
#include "dataset.h"
#include "load.h"
#include "packed.h"
#include "sources.h"

/* Rows [begin, end) of packed file `file`, or the lines that begin in these bytes of source `file`, or examples of the corpus. */
struct unit_range {
	uint32_t file;
	uint64_t begin, end;
};

struct dataset {
	struct dataset_info info;
	enum split_part part;
	uint32_t batch;
	uint64_t unit_rows;
	struct parser *parser; /* text */
	struct load_options load;
	struct sources sources;
	struct packed **packed; /* (packed_count); none: text units */
	uint32_t packed_count;
	struct corpus *corpus;    /* NULL: click data */
	struct unit_range *units; /* (info.units) */
	uint32_t units_capacity;
};

#endif
