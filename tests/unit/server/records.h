/* Builds requests as a client sends them, whole or in odd slices. */
#ifndef TEST_RECORDS_H
#define TEST_RECORDS_H

#include "proto/frame/frame.h"

extern const uint8_t records_uuid[16];
#define RECORDS_GENERATION 3u

struct rows { /* One section. */
	uint16_t table;
	weir_codec codec;
	uint32_t width, count;
	const uint64_t *keys;
	const float *values; /* NULL: the section has keys only */
	size_t values_count; /* number of floats */
	bool raw;            /* always 8 bytes per key, without coding */
};

/* A record, and the frame it points into. */
struct built {
	struct message *frame;
	struct record record;
	struct cursor body;
};

void records_add(struct record_writer *w, const struct record *r, const struct rows *sections, uint32_t count);
void records_add_bytes(struct record_writer *w, const struct record *r, const void *data, uint32_t bytes);
struct message *records_finish(struct record_writer *w);
struct built records_build(const struct record *r, const struct rows *sections, uint32_t count);
struct built records_build_close(uint64_t step, const uint32_t (*ids)[3], uint32_t included, uint32_t dropped);
/* With the weights of the included batches. */
struct built records_build_weighed(uint64_t step, const uint32_t (*ids)[3], const float *weights, uint32_t included,
                                   uint32_t dropped);
void records_free(struct built *b);
/* Copies m in slices of `slice` bytes, each at an odd address. */
struct message *records_slice(const struct message *m, size_t slice);

#endif
