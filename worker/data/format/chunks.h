/* Files in the pieces that threads take one at a time: whole lines, of about the size that was asked for. One thread at a time. */
#ifndef WEIR_CHUNKS_H
#define WEIR_CHUNKS_H

#include "weir/status.h"
#include "worker/data/format/sources.h"

struct chunk {
	char *data; /* (size), the last line perhaps without a newline */
	size_t size, capacity;
	uint32_t file; /* of the sources */
	uint64_t at;   /* where it begins in the file, once that is uncompressed */
	uint64_t line; /* the number of its first line, from 1; of a JSON array, of its first element */
};
void chunk_free(struct chunk *c);

/* How a file is read. */
struct chunk_plan {
	size_t bytes; /* to aim at */
	bool records; /* lines are of JSONL: an array in their place becomes lines (json_array.h) */
};

struct chunk_reader;
/* plan_of tells it of a file; a line longer than bytes_max is E_LIMIT. The sources must outlive
 * it. */
weir_status chunk_reader_create(struct chunk_reader **out, const struct sources *sources,
                                struct chunk_plan (*plan_of)(const char *path, void *context), void *context, size_t bytes_max,
                                weir_error *err);
/* The next one; size 0 when all files are read. Errors name the file. */
weir_status chunk_reader_next(struct chunk_reader *r, struct chunk *out, weir_error *err);
void chunk_reader_free(struct chunk_reader *r); /* NULL is allowed */

#endif
