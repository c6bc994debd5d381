/* The bytes of a journal segment file, little-endian: a header, then entries one behind the other,
 * then zeros (reserved space) or the end of the file. A position counts the bytes of all segments
 * ever written, so it never repeats: segment n + 1 starts at the position where n ends.
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
 *   16 u64 position of this header     24 u64 position below which all was durable when this was
 *                                             written
 *   32 u64 index    40 u64 epoch       48 u64 generation    56 i64 stamp, ms
 *   64 u16 channel  66 u16 finding     68 u32 rates
 *   72 u32 body bytes                  76 u32 0
 *   80 u64 committed                   88 8 bytes 0
 *
 * The payload follows: the rates (f32 each), the record's header (64 bytes, frame.h), its body as
 * received, and zeros up to a multiple of 8.
 *
 * A mark is an entry header alone, of channel 0xfffe. It records how far the journal is durable
 * when no entry follows an fsync. Recovery can then tell damage to the entries synced last from a
 * torn tail.
 *
 * A cut is an entry header alone, of channel 0xfffd. Its epoch field holds the channel it cuts.
 * Every earlier entry of that channel whose index is at or above the cut's index is void, and the
 * channel's next entry has that index, whatever came before. finding 1 (a restart): the entries
 * below that index are void too.
 *
 * Version 1 had no cuts, and its `committed` field is 0. Its entries come from the only copy of a
 * partition, so each is committed up to its own index. It also had no entries that begin an epoch
 * (frame.h, EPOCH): an epoch began with its first entry.
 *
 * A header has its own checksum. So a header can be trusted, and found behind a bad entry, before
 * its payload is read. Its position field invalidates bytes that belong to another place or
 * time. */
#ifndef WEIR_JOURNAL_FORMAT_H
#define WEIR_JOURNAL_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/log/journal.h"
#include "server/log/log.h"

#define JOURNAL_VERSION              2u
#define JOURNAL_VERSION_OLDEST       1u /* oldest version that is read */
#define JOURNAL_SEGMENT_HEADER_BYTES 64u
#define JOURNAL_ENTRY_HEADER_BYTES   96u
#define JOURNAL_MARK                 0xfffeu                /* channel of marks */
#define JOURNAL_CUT                  0xfffdu                /* channel of cuts */
#define JOURNAL_RATES_MAX            (WEIR_TABLES_MAX + 1u) /* of one entry */

struct journal_segment_header {
	uint64_t number, start;
	uint32_t version; /* the version read; JOURNAL_VERSION is always written */
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
/* version: the version of its segment. E_CORRUPT: wrong checksum, or fields that contradict each
 * other or exceed the limits. The sizes in a header that passes are reliable. */
weir_status journal_get_entry(const uint8_t bytes[JOURNAL_ENTRY_HEADER_BYTES], uint32_t version, struct journal_entry_header *out,
                              weir_error *err) WEIR_MUST_CHECK;

/* journal_describe_cut fills the header of a cut of the channel, except for position and durable.
 * journal_get_cut reads such a header. */
void journal_describe_cut(uint16_t channel, struct journal_cut cut, struct journal_entry_header *out);
struct journal_cut journal_get_cut(const struct journal_entry_header *h, uint16_t *channel);

/* Fills the header of entry e, except for position, durable and payload_crc. E_LIMIT: too large. */
weir_status journal_describe(const struct log_entry *e, uint16_t channel, struct journal_entry_header *out,
                             weir_error *err) WEIR_MUST_CHECK;
/* Decodes the entry whose payload starts at c (h->bytes without the header). The result borrows
 * from c's message. rates (JOURNAL_RATES_MAX) receives the rates. E_CORRUPT: wrong checksum, or too
 * short. Not for marks and cuts. */
weir_status journal_get_payload(struct cursor c, const struct journal_entry_header *h, float *rates, struct log_entry *out,
                                weir_error *err) WEIR_MUST_CHECK;
/* The payload of entry e in a journal is: rates, record, body, zeros. Writes its head, the part
 * before the body, to out (JOURNAL_HEAD_BYTES_MAX), and returns the size of the head. */
#define JOURNAL_HEAD_BYTES_MAX (4u * JOURNAL_RATES_MAX + RECORD_HEADER_BYTES)
size_t journal_put_head(uint8_t *out, const struct log_entry *e);
/* Returns the crc32c of the whole payload, as stored in e or else computed. head: output of
 * journal_put_head. */
uint32_t journal_payload_crc(const struct log_entry *e, const struct journal_entry_header *h, const uint8_t *head,
                             size_t head_bytes);

#endif
