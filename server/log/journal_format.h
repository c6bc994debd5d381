/* The bytes of a journal's segment file, little-endian: a header, then entries one behind the other, then zeros (reserved space) or the end
 * of the file. A position counts the bytes of all segments ever, so it never repeats: segment n + 1 starts at the position where n ends.
 *
 * Segment header, 64 bytes
 *   0  u32 magic 0x4a524957 ("WIRJ")   4  u32 crc32c of these 64 bytes with this field 0
 *   8  u32 version = 2                 12 u32 0
 *   16 u64 number (the file's name)    24 u64 position of this header
 *   32 16 bytes journal id             48 16 bytes 0
 *
 * Entry header, 96 bytes
 *   0  u32 magic 0x4c524957 ("WIRL")   4  u32 crc32c of these 96 bytes with this field 0
 *   8  u32 bytes (with this header, multiple of 8)
 *   12 u32 crc32c of the payload (all behind this header, padding included)
 *   16 u64 position of this header     24 u64 position below which all was durable when this was written
 *   32 u64 index    40 u64 epoch       48 u64 generation    56 i64 stamp, ms
 *   64 u16 channel  66 u16 finding     68 u32 rates
 *   72 u32 body bytes                  76 u32 0
 *   80 u64 committed                   88 8 bytes 0
 * then the rates (f32 each), the record's header (64 bytes, frame.h), its body as received, and zeros up to a multiple of 8.
 *
 * A mark is an entry header alone, of channel 0xfffe: it says how far the journal is durable when nobody else writes behind an fsync, so that
 * damage to what was synced last is told from a torn tail.
 *
 * A cut is an entry header alone, of channel 0xfffd, that speaks of the channel named in its epoch: every entry of that channel in front of it
 * whose index is at or above its own is void, and the channel's next entry has that index, whatever came before. finding 1: those below are
 * void too (a restart).
 *
 * Version 1 had neither cuts nor `committed` (0 there): an entry was written by the only copy, so it is committed as far as itself. Nor had it
 * entries that begin an epoch (frame.h, EPOCH): one began with the first entry that was of it.
 *
 * The header has a checksum of its own so that a header can be believed, and found behind a bad entry, before its payload is read. The
 * position in it makes bytes of another place, or of another time, no entry here. */
#ifndef WEIR_JOURNAL_FORMAT_H
#define WEIR_JOURNAL_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/log/journal.h"
#include "server/log/log.h"

#define JOURNAL_VERSION              2u
#define JOURNAL_VERSION_OLDEST       1u /* that is read */
#define JOURNAL_SEGMENT_HEADER_BYTES 64u
#define JOURNAL_ENTRY_HEADER_BYTES   96u
#define JOURNAL_MARK                 0xfffeu                /* channel of marks */
#define JOURNAL_CUT                  0xfffdu                /* channel of cuts */
#define JOURNAL_RATES_MAX            (WEIR_TABLES_MAX + 1u) /* of one entry */

struct journal_segment_header {
	uint64_t number, start;
	uint32_t version; /* read; JOURNAL_VERSION is written */
	uint8_t id[16];
};
void journal_put_segment(uint8_t out[JOURNAL_SEGMENT_HEADER_BYTES], const struct journal_segment_header *h);
/* E_CORRUPT; E_VERSION: intact, but of a newer version. */
weir_status journal_get_segment(const uint8_t bytes[JOURNAL_SEGMENT_HEADER_BYTES], struct journal_segment_header *out,
                                weir_error *err) WEIR_MUST_CHECK;

struct journal_entry_header {
	uint32_t bytes, payload_crc;
	uint64_t position, durable;
	uint64_t index, epoch, generation, committed;
	int64_t stamp_ms;
	uint16_t channel, finding;
	uint32_t rates_count, body_bytes;
};
void journal_put_entry(uint8_t out[JOURNAL_ENTRY_HEADER_BYTES], const struct journal_entry_header *h);
/* version: its segment's. E_CORRUPT: checksum, or fields that do not fit each other or the limits. What passes has sizes that can be relied upon. */
weir_status journal_get_entry(const uint8_t bytes[JOURNAL_ENTRY_HEADER_BYTES], uint32_t version, struct journal_entry_header *out,
                              weir_error *err) WEIR_MUST_CHECK;

/* The header of a cut of the channel, but for position and durable; and what such a header says. */
void journal_describe_cut(uint16_t channel, struct journal_cut cut, struct journal_entry_header *out);
struct journal_cut journal_get_cut(const struct journal_entry_header *h, uint16_t *channel);

/* The header of entry e, but for position, durable and payload_crc. E_LIMIT: too large. */
weir_status journal_describe(const struct log_entry *e, uint16_t channel, struct journal_entry_header *out,
                             weir_error *err) WEIR_MUST_CHECK;
/* The entry whose payload starts at c (h->bytes less the header), borrowed from c's message. rates (JOURNAL_RATES_MAX) receives the rates. E_CORRUPT:
 * checksum, or too short. Not for marks and cuts. */
weir_status journal_get_payload(struct cursor c, const struct journal_entry_header *h, float *rates, struct log_entry *out,
                                weir_error *err) WEIR_MUST_CHECK;
/* What a journal has behind the header of entry e: rates, record, body, zeros. Its first part, up to the body, is written to out (JOURNAL_HEAD_BYTES_MAX);
 * returns that part's size. */
#define JOURNAL_HEAD_BYTES_MAX (4u * JOURNAL_RATES_MAX + RECORD_HEADER_BYTES)
size_t journal_put_head(uint8_t *out, const struct log_entry *e);
/* crc32c of all of it: as noted in e, or computed. head: as journal_put_head wrote it. */
uint32_t journal_payload_crc(const struct log_entry *e, const struct journal_entry_header *h, const uint8_t *head,
                             size_t head_bytes);

#endif
