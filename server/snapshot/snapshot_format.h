/* The frames that carry a partition to a server that will hold a replica of it. Frames are numbered
 * from 0; each is one message. Little-endian.
 *
 *   header, 48 bytes
 *    0  magic 0x50534957 ("WISP")  u32     4  crc32c of the rest of the frame   u32
 *    8  version = 1                u16    10  enum snapshot_kind                u8
 *   11  zero                       u8     12  payload bytes                     u32
 *   16  session                    u64    24  number                            u64
 *   32  rows (ROWS), else zero     u32    36  zero                              12 bytes
 *
 *   payload, by kind, in the order of sending
 *   BEGIN  1    0  job uuid        16 bytes     16  generation               u64
 *              24  partition       u32          28  partitions of the job    u32
 *              32  epoch           u64  of the sending primary
 *              40  index           u64  state and rows hold exactly the entries up to it
 *              48  needs           u64  entries needs..last follow (needs == last + 1: no entries)
 *              56  state bytes     u64          64  tables   u32             68  zero   u32
 *              72  last            u64  at least index
 *              Open steps wait for some of the entries up to index. The entries after index are not
 *              known to be committed; rows may already contain their effects.
 *   TABLE  2   a Table of weir.proto; as many frames as BEGIN says
 *   STATE  3   the next part of a PartitionState (state.proto), until BEGIN's state bytes are sent
 *   ROWS   4   for each row 16 bytes: key u64, table u32, its bytes u32; then the bytes of all rows
 *              (row_batch.h). Each row once, in any order
 *   ENTRY  5   a log entry in the journal's format (journal_format.h), position and durable 0. In
 *              order, needs..last
 *   END    6    0  frames before it u64     8  rows u64    16  entries u64
 *              24  payload bytes of these frames u64
 *              32  xxh3-128 of their payloads, 16 bytes, canonical order
 *
 *   in the other direction, from the learner (snapshot_stream.h); session: the requested one
 *   ASK      7   number: of the first frame to send.   0  job uuid  16 bytes   16  generation  u64
 *   RECEIVED 8   number: all frames below it are written or, with END, installed. No payload
 *
 * Any frame that snapshot_reader_take accepts is intact, belongs to the requested job, is in its
 * place, and is within the limits. */
#ifndef WEIR_SNAPSHOT_FORMAT_H
#define WEIR_SNAPSHOT_FORMAT_H

#include "common/base/message.h"
#include "proto/frame/frame.h"
#include "server/log/log.h"
#include "server/store/row_batch.h"

#define SNAPSHOT_VERSION           1u
#define SNAPSHOT_HEADER_BYTES      48u
#define SNAPSHOT_BEGIN_BYTES       80u
#define SNAPSHOT_ROW_BYTES         16u
#define SNAPSHOT_END_BYTES         48u
#define SNAPSHOT_ASK_BYTES         24u
#define SNAPSHOT_HASH_BYTES        16u
#define SNAPSHOT_PAYLOAD_BYTES_MAX (FRAME_BYTES_MAX - SNAPSHOT_HEADER_BYTES)

enum snapshot_kind {
	SNAPSHOT_BEGIN = 1,
	SNAPSHOT_TABLE = 2,
	SNAPSHOT_STATE = 3,
	SNAPSHOT_ROWS = 4,
	SNAPSHOT_ENTRY = 5,
	SNAPSHOT_END = 6,
	SNAPSHOT_ASK = 7,
	SNAPSHOT_RECEIVED = 8,
};

struct snapshot_frame {
	enum snapshot_kind kind;
	uint64_t session, number;
	uint32_t rows;         /* of ROWS */
	struct cursor payload; /* of a frame that was read; borrowed from its message */
};

struct snapshot_begin {
	uint8_t uuid[16];
	uint64_t generation;
	uint32_t partition, partitions;
	uint64_t epoch, index, needs, last;
	uint64_t state_bytes;
	uint32_t tables;
};

struct snapshot_totals {
	uint64_t frames, rows, entries, bytes;
	uint8_t hash[SNAPSHOT_HASH_BYTES];
};

/* --- Writing. Functions return NULL when out of memory. They ignore the `payload` of f. */

/* Copies the payload (at most SNAPSHOT_PAYLOAD_BYTES_MAX). */
struct message *snapshot_make(const struct snapshot_frame *f, const void *payload, size_t bytes);
struct message *snapshot_make_begin(const struct snapshot_frame *f, const struct snapshot_begin *b);
/* Takes over the batch, also when it returns NULL. The batch has rows and no removals. */
struct message *snapshot_make_rows(const struct snapshot_frame *f, struct row_batch *b);
/* E_LIMIT: the entry is too large for one frame. E_MEMORY. */
weir_status snapshot_make_entry(struct message **out, const struct snapshot_frame *f, const struct log_entry *e,
                                uint16_t partition, weir_error *err) WEIR_MUST_CHECK;
struct message *snapshot_make_end(const struct snapshot_frame *f, const struct snapshot_totals *t);

/* From the learner: send frames from number `from` on; frames below `next` have arrived. */
struct message *snapshot_make_ask(uint64_t session, uint64_t from, const uint8_t uuid[16], uint64_t generation);
struct message *snapshot_make_received(uint64_t session, uint64_t next);

/* --- Sums, the same at both ends */

struct snapshot_sum;
struct snapshot_sum *snapshot_sum_create(void); /* NULL when out of memory */
/* With its payload. */
void snapshot_sum_add(struct snapshot_sum *s, const struct snapshot_frame *f);
void snapshot_sum_get(const struct snapshot_sum *s, struct snapshot_totals *out);
void snapshot_sum_destroy(struct snapshot_sum *s); /* NULL is allowed */

/* --- Reading */

/* Reads one frame, which is all of c: header, sizes, checksum. E_CORRUPT; E_VERSION: from a newer
 * Weir. */
weir_status snapshot_read(struct cursor c, struct snapshot_frame *out, weir_error *err) WEIR_MUST_CHECK;

/* Checks that an ASK is of this job. E_GENERATION; E_CORRUPT. */
weir_status snapshot_check_ask(const struct snapshot_frame *f, const uint8_t uuid[16], uint64_t generation,
                               weir_error *err) WEIR_MUST_CHECK;

/* Reads a whole snapshot, frame by frame. */
struct snapshot_reader {
	/* in: the expected job and partition */
	uint8_t uuid[16];
	uint64_t generation;
	uint32_t partition, partitions;
	/* out */
	uint64_t session; /* 0: no frame yet */
	uint64_t next;    /* number of the next frame */
	struct snapshot_begin begin;
	bool ended;
	/* private */
	enum snapshot_kind last;
	uint32_t tables;
	uint64_t state_bytes, entries;
	struct snapshot_sum *sum;
};
/* E_MEMORY. The inputs are copied. */
weir_status snapshot_reader_init(struct snapshot_reader *r, const uint8_t uuid[16], uint64_t generation, uint32_t partition,
                                 uint32_t partitions) WEIR_MUST_CHECK;
void snapshot_reader_destroy(struct snapshot_reader *r);
/* Takes the next frame, which is all of c. E_CORRUPT: damaged, or not the next frame; E_GENERATION:
 * of another job or generation; E_INVALID: of another partition; E_VERSION; E_LIMIT. After an error
 * the reader is unchanged. */
weir_status snapshot_reader_take(struct snapshot_reader *r, struct cursor c, struct snapshot_frame *out,
                                 weir_error *err) WEIR_MUST_CHECK;
/* Reads the rows of a ROWS frame. *out is overwritten and belongs to the caller. E_CORRUPT,
 * E_MEMORY. */
weir_status snapshot_read_rows(const struct snapshot_frame *f, uint32_t partition, struct row_batch *out,
                               weir_error *err) WEIR_MUST_CHECK;
/* Reads the entry of an ENTRY frame, borrowed from *message, which the caller releases. rates: as
 * for journal_get_payload. E_CORRUPT, E_MEMORY. */
weir_status snapshot_read_entry(const struct snapshot_frame *f, uint32_t partition, float *rates, struct log_entry *out,
                                struct message **message, weir_error *err) WEIR_MUST_CHECK;

#endif
