/* A partition on its way to a server that is to hold a replica of it: frames, numbered from 0, each one message. Little-endian.
 *
 *   header, 48 bytes
 *    0  magic 0x50534957 ("WISP")     u32      4  crc32c of all that follows in the frame   u32
 *    8  version = 1                   u16     10  enum snapshot_kind                        u8      11  zero   u8
 *   12  payload bytes                 u32     16  session                                   u64
 *   24  number                        u64     32  rows (ROWS), else zero                    u32     36  zero   12 bytes
 *
 *   payload, by kind, in the order in which they come
 *   BEGIN  1    0  job uuid           16 bytes        16  generation                        u64
 *              24  partition          u32             28  partitions of the job             u32
 *              32  epoch              u64  of the primary that sends it
 *              40  index              u64  everything up to it is in state and rows, nothing behind it
 *              48  needs              u64  entries needs..last follow (needs == last + 1: none): open steps wait for some of those up to index,
 *                                          and of those behind it, which are not known to be committed, rows may have the effect already
 *              56  state bytes        u64             64  tables   u32                      68  zero   u32
 *              72  last               u64  at least index
 *   TABLE  2   a Table of weir.proto. As often as BEGIN says
 *   STATE  3   the next part of a PartitionState (state.proto). As often as it takes to have BEGIN's bytes
 *   ROWS   4   for each row 16 bytes: key u64, table u32, its bytes u32; then the bytes of all rows (row_batch.h). Each row once, in any order
 *   ENTRY  5   a log entry as a journal has it (journal_format.h), position and durable 0. In order, needs..last
 *   END    6    0  frames before it u64     8  rows u64    16  entries u64    24  their payload bytes u64    32  xxh3-128 of their payloads, 16 bytes,
 *              canonical order
 *
 *   and the other way, from who receives it (snapshot_stream.h); its session is the one it asks for
 *   ASK      7     its number: that of the frame which is to come first.    0  job uuid   16 bytes     16  generation   u64
 *   RECEIVED 8     its number: all frames below it are written, or, with END, installed. No payload
 *
 * Whatever the bytes: a frame that snapshot_reader_take lets through is intact, of the job that was asked for, in its place, and within the limits. */
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
	uint32_t rows;         /* ROWS */
	struct cursor payload; /* of one that was read; borrowed from its message */
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

/* --- Writing. NULL when out of memory. `payload` of f is not used. */

/* A copy of the payload (at most SNAPSHOT_PAYLOAD_BYTES_MAX). */
struct message *snapshot_make(const struct snapshot_frame *f, const void *payload, size_t bytes);
struct message *snapshot_make_begin(const struct snapshot_frame *f, const struct snapshot_begin *b);
/* Takes the batch over (also when NULL is returned), which has rows and no removals. */
struct message *snapshot_make_rows(const struct snapshot_frame *f, struct row_batch *b);
/* E_LIMIT: too large for one frame. E_MEMORY. */
weir_status snapshot_make_entry(struct message **out, const struct snapshot_frame *f, const struct log_entry *e,
                                uint16_t partition, weir_error *err) WEIR_MUST_CHECK;
struct message *snapshot_make_end(const struct snapshot_frame *f, const struct snapshot_totals *t);

/* The learner's: frames from number `from` on are to come; those below `next` are there. */
struct message *snapshot_make_ask(uint64_t session, uint64_t from, const uint8_t uuid[16], uint64_t generation);
struct message *snapshot_make_received(uint64_t session, uint64_t next);

/* --- Sums, the same at both ends */

struct snapshot_sum;
struct snapshot_sum *snapshot_sum_create(void);                                /* NULL when out of memory */
void snapshot_sum_add(struct snapshot_sum *s, const struct snapshot_frame *f); /* with its payload */
void snapshot_sum_get(const struct snapshot_sum *s, struct snapshot_totals *out);
void snapshot_sum_destroy(struct snapshot_sum *s); /* NULL is allowed */

/* --- Reading */

/* One frame by itself, all that c has: header, sizes, checksum. E_CORRUPT; E_VERSION: of a newer Weir. */
weir_status snapshot_read(struct cursor c, struct snapshot_frame *out, weir_error *err) WEIR_MUST_CHECK;

/* Whether an ASK is of this job. E_GENERATION; E_CORRUPT. */
weir_status snapshot_check_ask(const struct snapshot_frame *f, const uint8_t uuid[16], uint64_t generation,
                               weir_error *err) WEIR_MUST_CHECK;

/* A whole snapshot, frame by frame. */
struct snapshot_reader {
	/* in: what it must be of */
	uint8_t uuid[16];
	uint64_t generation;
	uint32_t partition, partitions;
	/* out */
	uint64_t session; /* 0: no frame yet */
	uint64_t next;    /* number of the next frame */
	struct snapshot_begin begin;
	bool ended;
	/* ours */
	enum snapshot_kind last;
	uint32_t tables;
	uint64_t state_bytes, entries;
	struct snapshot_sum *sum;
};
/* E_MEMORY. `in` is copied. */
weir_status snapshot_reader_init(struct snapshot_reader *r, const uint8_t uuid[16], uint64_t generation, uint32_t partition,
                                 uint32_t partitions) WEIR_MUST_CHECK;
void snapshot_reader_free(struct snapshot_reader *r);
/* The next frame: all that c has. E_CORRUPT: damaged, or not the one that is next; E_GENERATION: of another job or generation; E_INVALID: of another partition; E_VERSION;
 * E_LIMIT. After any of them the reader is where it was. */
weir_status snapshot_reader_take(struct snapshot_reader *r, struct cursor c, struct snapshot_frame *out,
                                 weir_error *err) WEIR_MUST_CHECK;
/* The rows of a ROWS frame, added to nothing: *out is overwritten, and the caller's. E_CORRUPT, E_MEMORY. */
weir_status snapshot_read_rows(const struct snapshot_frame *f, uint32_t partition, struct row_batch *out,
                               weir_error *err) WEIR_MUST_CHECK;
/* The entry of an ENTRY frame, borrowed from a message that is the caller's to release; rates as of journal_get_payload. E_CORRUPT, E_MEMORY. */
weir_status snapshot_read_entry(const struct snapshot_frame *f, uint32_t partition, float *rates, struct log_entry *out,
                                struct message **message, weir_error *err) WEIR_MUST_CHECK;

#endif
