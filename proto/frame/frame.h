/* The bulk frame: little-endian, fixed layout, checked before anything is allocated. A frame is a
 * header and records. A record is a header and table sections. A section is a header, an index
 * stream and a data stream, each padded with zeros to 8 bytes. A record is one request or reply, or
 * one log entry (its bytes are logged as received).
 *
 * Frame header, 48 bytes
 *   0  u32 magic 0x31524957 ("WIR1")      4  u8 version = 1   5 u8 0   6 u16 flags = 0
 *   8  u32 records                        12 u32 crc32c of these 48 bytes with this field 0
 *   16 u64 body bytes (all records)       24 u64 generation
 *   32 16 bytes job uuid
 *
 * Record header, 64 bytes
 *   0  u32 bytes (with this header, multiple of 8)
 *   4  u32 crc32c of the whole record with this field 0
 *   8  u8 kind   9 u8 flags   10 u16 partition (0xffff: every partition of the server)
 *   12 u16 sections           14 u16 part
 *   16 u64 request id (a reply repeats its request's)
 *   24 u32 pass  28 u32 unit  32 u32 attempt  36 u32 batch
 *   40 u64 a     48 u64 b     56 u32 status     60 u32 c
 * The table at enum record_kind explains the fields from 24 on for each kind.
 *
 * Section header, 32 bytes
 *   0  u16 table   2 u8 codec   3 u8 index codec   4 u16 flags   6 u16 0
 *   8  u32 rows    12 u32 width (elements per row; dense: WEIR_CHUNK, less in the last chunk)
 *   16 u32 index bytes   20 u32 data bytes (both before padding)   24 u64 aux (codec's own)
 * Then the index stream (dense tables: chunk numbers), then the data stream.
 *
 * flags: SECTION_LZ4_INDEX, SECTION_LZ4_DATA: that stream is compressed (section_lz4.h): u32
 * uncompressed bytes, then an LZ4 block. Only pushes have these flags.
 *
 * Pushes. Values are encoded row by row, as in kernels/codec.h and kernels/topk.h. aux: for topk,
 * the codec of the values (weir_values); for int4, the code book (weir_book; a segmented book
 * precedes the first row as 16 fp32); otherwise 0.
 *
 * Pulls. A requesting section states in `codec` the form of the values: fp32, or the coding of the
 * table's pulls (weir_pull_coding). The answer is fp32 or that coding. For an embedding, rows are
 * encoded as in pushes (int8: a row with a NaN or an infinity is all bytes 0xff, which decode as
 * NaN). For a dense table in a coding other than fp32, the answer has differences from what the
 * client holds. The data stream of the request states that, for each requested chunk:
 *   0  u64 origin of the delta base that it holds   8 u64 version; 0, 0: it holds none
 * The answer has the origin in aux, and for each chunk
 *   0  u64 version after applying these bytes       8 u32 number of bytes that follow
 *   12 u32 number of differences; 0: n x f32, the values of that version, or no bytes: already held
 *   16 the differences up to the newest version, oldest first: u32 bytes | as in difference.h
 * A server that is not primary or is out of memory answers fp32. server/partition/delta_base.h
 * defines versions.
 *
 * Index stream (section_keys.h). INDEX_ALL: empty. INDEX_RAW: u64 per key, in any order.
 * INDEX_ELIAS_FANO, for keys that rise and are distinct: empty for 0 rows, otherwise
 *   0  u8: number of bytes of base (0 to 8) in the low half, of most in the high half
 *   1  base: the smallest key, little-endian, in the fewest bytes
 *   .. most, likewise: largest key - base - (rows - 1)
 *   .. for each i, (key i) - base - i, from 0 to most: as in elias_fano.h */
#ifndef WEIR_FRAME_H
#define WEIR_FRAME_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/message.h"
#include "weir/table.h"

#define FRAME_MAGIC          0x31524957u
#define FRAME_VERSION        1
#define FRAME_HEADER_BYTES   48u
#define RECORD_HEADER_BYTES  64u
#define SECTION_HEADER_BYTES 32u
#define FRAME_PARTITION_ALL  0xffffu
/* Of pulled differences. */
#define PULL_HELD_BYTES          16u
#define DIFFERENCES_HEADER_BYTES 16u
#define DIFFERENCE_LENGTH_BYTES  4u
/* Most that a writer builds; a message still has room for the protobuf envelope. */
#define FRAME_BYTES_MAX (WEIR_MESSAGE_BYTES_MAX - 16u)

/* Kinds, and what each carries. The names are those of struct record; words a, b, status and c
 * hold the 24 bytes from 40 on.
 *
 *   PUSH         identity (pass unit attempt batch part). applied: the partition's applied index at
 *                the pull that the gradients were computed from. step: the synchronous step (0:
 *                none). rate_scale: bits of an fp32 that multiplies learning rates (0: none).
 *                place: the batch's place in the whole training, from 1, which asynchronous
 *                schedules go by (0: the partition counts its own pushes). Sections: keys and
 *                gradients, all of synchronous tables or none
 *   PUSH_REPLY   status. applied: the applied index; with cluster.ack primary, that of the push's
 *                own entry. stable: applied, and no failover takes it back. epoch: of `applied`.
 *                attempt: staleness, the entries behind the push's `applied` when it came
 *   PULL         step_least: the step that must be applied (0: none). applied_least: the index that
 *                must be applied, if the log has it. age_ms_max: a replica may answer if its state
 *                is no older, and has applied_least (0: only the primary); else it says
 *                E_NOT_CURRENT. place: the highest place that the client has pushed (0: none), to
 *                which rows of asynchronous tables with full decay are brought. Identity (pass unit
 *                attempt batch): of the batch that pulls, while it is traced; else 0. Sections:
 *                keys, and what the client holds of them; one section per (table, partition)
 *   PULL_REPLY   status. applied: the applied index. closed: the last closed step. Sections as
 *                asked, in that order, data without keys
 *   SEAL         identity (pass unit attempt); the partition may be ALL
 *   SEAL_REPLY   one per partition. status, applied, stable as of PUSH_REPLY; batch: the epoch;
 *                bits: of its one section (table 0, codec FP32, width 0): a bitmap of the unit's
 *                parts that are applied, dropped or waiting in an open step, bit
 *                frame_part_bit(batch, part)
 *   CLOSE_STEP   rate_scale: as of PUSH. step. included: batches in the step. One section: the ids
 *                of included, then of dropped batches (u32 pass, unit, batch), and with flag
 *                CLOSE_WEIGHTS the weights of the included (f32 each, from 0 to `included`, mean 1;
 *                without it all are 1): rows take the sum of weight times gradient, divided by
 *                `included`. Partition ALL
 *   CLOSE_REPLY  status, applied
 *   RETIRE       closes all units below (pass, unit), and if attempt > 0 also unit_key (pass in the
 *                high half, unit in the low one). Partition ALL
 *   RETIRE_REPLY status
 *   ASSIGN       sections: keys and values; flag ASSIGN_SLOTS: optimizer slots follow the values
 *   ASSIGN_REPLY status, applied
 *   SCAN_REPLY   status. cursor and part: where to go on (0, 0: at the end). request id: the
 *                server's process. steps, rate (bits of an fp32): of the table's clock here. One
 *                section: keys and values
 *   RESUME       index: the highest that the partition has acknowledged to this client; epoch: in
 *                which (0, 0: none). Process (record_get_process): the server's, as the client
 *                knows it (0: unknown). The first record to each partition on a new push stream,
 *                and where it moves to; repeated at will, it asks what is stable
 *   RESUME_REPLY status: OK once `index` is stable; E_STALE when entries up to it were lost in a
 *                restart or a failover; E_LOST when the process is another and the log in memory.
 *                applied, stable, epoch as of PUSH_REPLY. Process: this one (0: it outlives itself)
 *   LEDGER       log only (ledger_log.c). One section (table 0, codec FP32, width 0): LedgerState
 *   EVICT        log only (partition_evict.c): rows that are gone. Sections: keys
 *   TABLE        log only (partition_tables.c): a new table. One section (as LEDGER's): Table
 *   EPOCH        log only (partition_role.c): the first entry of the epoch in the entry's header
 *   SCRUB        log only (scrub.h): each replica hashes slice `slice` of `slices` of its rows here
 *
 * A reply with status E_MOVED carries `moved`, whatever its kind: the primary's server (0xffff:
 * unknown), its epoch, and the low 32 bits of the map's revision.
 *
 * A record to ALL partitions of a server goes to those of which it is primary.
 *
 * Between the replicas of a partition (replica_wire.h). Partition 0xffff is the ledger. route:
 * the sending server in the low 16 bits, the receiving one in the high 16. request id: an
 * incarnation, the sender's in JOIN, ACK and REFUSE, none in SCRUBBED, else the receiver's.
 * first (record_get_first) and second (attempt, second_low): two numbers of 64 bits.
 *   REPLICA_JOIN       nothing else
 *   REPLICA_ESTABLISH  epoch; first: commit index. One section (table 0, codec FP32, INDEX_ALL,
 *                      width 0): the epochs and the indices they begin at (u64 each), rising, to
 *                      this one
 *   REPLICA_APPEND     epoch; index: of the first entry; first: commit index. Sections (as above):
 *                      an entry each, as in a journal (journal_format.h) with position and durable
 *                      0, without gaps
 *   REPLICA_ACK        epoch; index: the last; first: commit index; second: durable index; flag
 *                      REPLICA_GAP
 *   REPLICA_REFUSE     epoch
 *   REPLICA_OFFER      epoch; index: session of a snapshot; first: the last index that it covers
 *   REPLICA_SCRUBBED   index: of a SCRUB entry; first: hash of the sender's rows; second: of
 *                      everything else
 *   REPLICA_REBUILD    epoch
 *
 * A refusal may carry one section (table 0, codec FP32, INDEX_ALL, width 0): a sentence in
 * UTF-8. */
/* clang-format off */
#define RECORD_KIND_MAP(X) \
	X(PUSH, 1) X(PUSH_REPLY, 2) X(PULL, 3) X(PULL_REPLY, 4) X(SEAL, 5) X(SEAL_REPLY, 6) X(CLOSE_STEP, 7) X(CLOSE_REPLY, 8) X(RETIRE, 9) \
	X(RETIRE_REPLY, 10) X(ASSIGN, 11) X(ASSIGN_REPLY, 12) X(SCAN_REPLY, 13) X(RESUME, 14) X(RESUME_REPLY, 15) X(LEDGER, 16) X(EVICT, 17) \
	X(REPLICA_JOIN, 18) X(REPLICA_ESTABLISH, 19) X(REPLICA_APPEND, 20) X(REPLICA_ACK, 21) X(REPLICA_REFUSE, 22) X(EPOCH, 23) \
	X(REPLICA_OFFER, 24) X(SCRUB, 25) X(REPLICA_SCRUBBED, 26) X(REPLICA_REBUILD, 27) X(TABLE, 28)
/* clang-format on */

enum record_kind {
#define RECORD_KIND_ENUM(name, number) RECORD_##name = number,
	RECORD_KIND_MAP(RECORD_KIND_ENUM)
#undef RECORD_KIND_ENUM
};

enum index_codec {
	INDEX_RAW = 0,
	INDEX_DELTA = 1,
	INDEX_ELIAS_FANO = 2,
	INDEX_ALL = 3 /* dense: chunks in order, no index stream */
};
enum section_flag { SECTION_LZ4_INDEX = 1, SECTION_LZ4_DATA = 2 };
/* Each flag belongs to one kind; values repeat. */
enum record_flag { RECORD_ASSIGN_SLOTS = 1, RECORD_REPLICA_GAP = 1, RECORD_CLOSE_WEIGHTS = 1 };

struct frame_header {
	uint32_t records;
	uint64_t body_bytes;
	uint64_t generation;
	uint8_t uuid[16];
};

/* A record's header. Each kind has its own names for its contents; the table above defines them.
 * All names share the bytes from 40 on. Only frame.c reads and writes these as `words`. */
struct record {
	uint32_t bytes, crc;
	uint8_t kind, flags;
	uint16_t partition, sections, part;
	uint64_t request_id;
	/* The identity of PUSH, SEAL, RETIRE; otherwise see record_get_... */
	uint32_t pass, unit, attempt, batch;
	union {
		struct record_words {
			uint64_t a, b;
			uint32_t status, c;
		} words;
		struct {
			uint64_t reserved[2];
			uint32_t status; /* every reply */
		};
		struct {
			uint64_t applied, step;
			uint32_t place, rate_scale;
		} push;
		struct {
			uint64_t applied_least, step_least;
			uint32_t place, age_ms_max;
		} pull;
		struct {
			uint64_t rate_scale, step;
			uint32_t reserved, included;
		} close;
		struct {
			uint64_t unit_key;
		} retire;
		struct {
			uint64_t index, epoch;
		} resume;
		struct {
			uint64_t slice, slices;
		} scrub;
		struct {
			uint64_t applied, stable;
			uint32_t status, epoch;
		} reply; /* PUSH_REPLY, CLOSE_REPLY, RETIRE_REPLY, ASSIGN_REPLY, RESUME_REPLY */
		struct {
			uint64_t applied, stable;
			uint32_t status, bits;
		} seal_reply;
		struct {
			uint64_t applied, closed;
			uint32_t status;
		} pull_reply;
		struct {
			uint64_t cursor, steps;
			uint32_t status, rate;
		} scan_reply;
		struct {
			uint64_t server, epoch;
			uint32_t status, revision;
		} moved; /* a reply with status E_MOVED */
		struct {
			uint64_t epoch, index; /* of an offer: index is its session */
			uint32_t second_low, route;
		} replica;
	};
};
static_assert(sizeof(struct record_words) == 24, "every kind has 24 bytes of its own");

/* 64-bit numbers in the place of an identity, high half first. */
static inline uint64_t record_get_first(const struct record *r)
{
	return (uint64_t)r->pass << 32 | r->unit;
}
static inline void record_set_first(struct record *r, uint64_t value)
{
	r->pass = (uint32_t)(value >> 32);
	r->unit = (uint32_t)value;
}
/* The process id in a RESUME or its reply; 0: none. */
static inline uint64_t record_get_process(const struct record *r)
{
	return record_get_first(r);
}
static inline void record_set_process(struct record *r, uint64_t process)
{
	record_set_first(r, process);
}

struct section {
	uint16_t table;
	uint8_t codec, index_codec;
	uint16_t flags;
	uint32_t rows, width, index_bytes, data_bytes;
	uint64_t aux;
	struct cursor index, data; /* set by frame_next_section: the exact streams, without padding */
};

/* A part's bit in its unit's bitmap. */
static inline uint32_t frame_part_bit(uint32_t batch, uint32_t part)
{
	return batch * WEIR_BATCH_PARTS_MAX + part;
}
/* Hash of an identity. Its wrapping sums are the fingerprints of ledger and partitions. */
uint64_t frame_identity_hash(uint32_t pass, uint32_t unit, uint32_t batch, uint32_t part);

/* --- Reading. Every function first checks bounds against limits.h, and fails with E_CORRUPT,
 * E_VERSION or E_LIMIT and a text that names the field and the values. Nothing is allocated. */

/* Reads and verifies the frame header (magic, version, crc, body == remaining bytes, records within
 * limits). */
weir_status frame_open(struct cursor *c, struct frame_header *out, weir_error *err) WEIR_MUST_CHECK;
/* Reads the next record: its header into *out; *body is the bytes of its sections, which fill it
 * exactly. verify: check the record's crc, which reads all its bytes. On failure with out->bytes >
 * 0, only this record is bad and *c points after it: the next one can be read. */
weir_status frame_next_record(struct cursor *c, bool verify, struct record *out, struct cursor *body,
                              weir_error *err) WEIR_MUST_CHECK;
weir_status frame_next_section(struct cursor *body, struct section *out, weir_error *err) WEIR_MUST_CHECK;
/* Decodes the fields of a record header, unchecked: the inverse of frame_put_record. */
void frame_get_record(const uint8_t h[RECORD_HEADER_BYTES], struct record *out);

/* Makes a new frame of the records i of a well-formed frame for which keep[i] is set, byte for
 * byte. The new frame refers to the first one. NULL: out of memory. */
struct message *frame_cut(struct message *frame, const bool *keep);

/* --- Writing. Headers are encoded into the caller's memory; payload bytes are referenced, not
 * copied. */
/* Computes the crc. */
void frame_put_header(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *h);
void frame_put_record(uint8_t out[RECORD_HEADER_BYTES], const struct record *r); /* stores r->crc */
void frame_put_section(uint8_t out[SECTION_HEADER_BYTES], const struct section *s);

/* Builds a frame as a list of spans. For each record: begin, then add for each section, then end
 * (which computes bytes and crc). Headers and small streams live in the writer's own growing
 * buffer. Large streams are borrowed and must outlive the message. */
struct record_writer;
struct record_writer *record_writer_create(void); /* NULL when out of memory; reusable */
void record_writer_destroy(struct record_writer *w);
void record_writer_begin(struct record_writer *w, const struct record *r);
/* borrow: data is referenced until the message is released; otherwise it is copied. index may be
 * NULL with INDEX_ALL. */
weir_status record_writer_add(struct record_writer *w, const struct section *s, const void *index, const void *data, bool borrow);
/* Like record_writer_add with borrowed data, whose crc32c the caller knows: the data is not read
 * here. */
weir_status record_writer_lend(struct record_writer *w, const struct section *s, const void *index, const void *data,
                               uint32_t data_crc);
/* Adds a section without index whose data are in pieces: a copy of `head`, then the bytes of
 * `tail`, referenced as above, then zeros up to s->data_bytes. data_crc: crc32c of the data from
 * crc_from on, which are not read here. */
weir_status record_writer_lend_pieces(struct record_writer *w, const struct section *s, const void *head, size_t head_bytes,
                                      struct cursor tail, size_t crc_from, uint32_t data_crc);
/* Reserves a section whose streams the caller fills in place. Returns pointers valid until the next
 * writer call. */
weir_status record_writer_reserve(struct record_writer *w, const struct section *s, uint8_t **index, uint8_t **data);
/* Finishes the record and appends it to the frame. */
weir_status record_writer_end(struct record_writer *w);
/* Bytes and records of the frame so far, and the finished frame as a message (one reference; the
 * release callback runs when the last reference is dropped). Afterwards the writer is empty
 * again. */
size_t record_writer_bytes(const struct record_writer *w);
uint32_t record_writer_records(const struct record_writer *w);
struct message *record_writer_finish(struct record_writer *w, const uint8_t uuid[16], uint64_t generation,
                                     void (*release)(struct message *), void *owner);

#endif
