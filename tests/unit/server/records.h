/* Requests built for tests: frames as a client would send them, whole or cut into odd slices. */
#ifndef TEST_RECORDS_H
#define TEST_RECORDS_H

#include "proto/frame/frame.h"

extern const uint8_t records_uuid[16];
#define RECORDS_GENERATION 3u

struct rows { /* one section */
	uint16_t table;
	weir_codec codec;
	uint32_t width, count;
	const uint64_t *keys;
	const float *values; /* NULL: keys only */
	size_t values_count; /* floats */
	bool raw;            /* keys of 8 bytes each, even where they could be coded */
};

/* A record whose frame it holds on to. */
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
/* The same with the weights of those included. */
struct built records_build_weighed(uint64_t step, const uint32_t (*ids)[3], const float *weights, uint32_t included,
                                   uint32_t dropped);
void records_free(struct built *b);
/* A copy of m in slices of `slice` bytes, each at an odd address. */
struct message *records_slice(const struct message *m, size_t slice);

#endif
