/* The keys of a section, in its index stream: written raw or coded, whichever is smaller, and read some at a time from wherever they lie. frame.h has
 * the byte diagram. Not of INDEX_ALL, which has no stream. */
#ifndef WEIR_SECTION_KEYS_H
#define WEIR_SECTION_KEYS_H

#include "common/base/elias_fano.h"
#include "proto/frame/frame.h"

/* Sets index_codec and index_bytes for s->rows keys: coded where they rise, are distinct, and take less so. */
void section_keys_plan(struct section *s, const uint64_t *keys);
/* The stream, as planned. index (s->index_bytes): any alignment. */
void section_keys_write(const struct section *s, const uint64_t *keys, uint8_t *index);

/* Of any section: at most s->rows keys come out, in order, and section_keys_end says whether those are what was written. */
struct section_keys {
	struct elias_fano coded;
	struct cursor raw;
	uint64_t base; /* of a coded key: what is known of it before it is read */
	uint32_t left;
	bool is_coded, is_first, damaged;
};
void section_keys_begin(struct section_keys *k, const struct section *s);
size_t section_keys_next(struct section_keys *k, uint64_t *keys, size_t max); /* fewer than max only in the end */
/* E_CORRUPT: the stream is not of so many keys, or coded and not the one way to write them; E_UNSUPPORTED: another codec. Once all are handed out. */
weir_status section_keys_end(const struct section_keys *k, const struct section *s, weir_error *err) WEIR_MUST_CHECK;

#endif
