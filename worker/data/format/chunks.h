/* Reads files as chunks of whole lines, of about a requested size, which threads take one at a
 * time. One thread may call the reader at a time. */
#ifndef WEIR_CHUNKS_H
#define WEIR_CHUNKS_H

#include "weir/status.h"
#include "worker/data/format/sources.h"

struct chunk {
	char *data; /* (size); the last line may lack a newline */
	size_t size, capacity;
	uint32_t file; /* index into the sources */
	uint64_t at;   /* offset of the chunk in the file, after decompression */
	uint64_t line; /* number of the first line, from 1; in a JSON array, of the first element */
};
void chunk_destroy(struct chunk *c);

/* How to read a file. */
struct chunk_plan {
	size_t bytes; /* target size */
	bool records; /* lines are JSONL; an array instead becomes lines (json_array.h) */
};

struct chunk_reader;
/* plan_of returns the plan for a file. A line longer than bytes_max is E_LIMIT. The sources must
 * outlive the reader. */
weir_status chunk_reader_create(struct chunk_reader **out, const struct sources *sources,
                                struct chunk_plan (*plan_of)(const char *path, void *context), void *context, size_t bytes_max,
                                weir_error *err);
/* Reads the next chunk; size 0 after the last file. Errors name the file. */
weir_status chunk_reader_next(struct chunk_reader *r, struct chunk *out, weir_error *err);
void chunk_reader_destroy(struct chunk_reader *r); /* NULL is allowed */

#endif
