/* The keys of a section, in its index stream: written raw or coded, whichever is smaller, and read
 * in portions from the message. frame.h has the byte diagram. Not for INDEX_ALL, which has no
 * stream. */
#ifndef WEIR_SECTION_KEYS_H
#define WEIR_SECTION_KEYS_H

#include "common/base/elias_fano.h"
#include "proto/frame/frame.h"

/* Sets index_codec and index_bytes for s->rows keys. Keys are coded if they rise, are distinct, and
 * get smaller by it. */
void section_keys_plan(struct section *s, const uint64_t *keys);
/* Writes the stream as planned. index (s->index_bytes): any alignment. */
void section_keys_write(const struct section *s, const uint64_t *keys, uint8_t *index);

/* Reads the keys of any section. At most s->rows keys come out, in order; section_keys_end then
 * says whether the stream was valid. */
struct section_keys {
	struct elias_fano coded;
	struct cursor raw;
	uint64_t base; /* of a coded stream: its smallest key + the number of keys read */
	uint32_t left;
	bool is_coded, is_first, damaged;
};
void section_keys_begin(struct section_keys *k, const struct section *s);
/* Fewer than max only at the end. */
size_t section_keys_next(struct section_keys *k, uint64_t *keys, size_t max);
/* Call after all keys have been read. E_CORRUPT: the stream has another number of keys, or its
 * coding is damaged or not canonical. E_UNSUPPORTED: another codec. */
weir_status section_keys_end(const struct section_keys *k, const struct section *s, weir_error *err) WEIR_MUST_CHECK;

#endif
