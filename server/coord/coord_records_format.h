/* The coordinator's records of a job. Under "/weir/JOB/GENERATION/", where JOB is the job's uuid in
 * 32 hex digits and numbers are decimal:
 *
 *   partition/ID   PartitionRecord   a partition's roles (struct replica_record). ID: the
 *                                    partition's, or JOURNAL_LEDGER
 *   hosts/ID       HostsRecord       a partition's assignment (assignment.h); optional
 *   server/INDEX   ServerRecord      a live server and its address; leased
 *   start/INDEX    ServerRecord      the last start of a server: only that start may change a
 *                                    partition's record
 *   next           NextRecord        the successor of this generation (rewind.h); usually absent
 *
 * Under "/weir/JOB/", for all generations and not watched:
 *
 *   mark/INDEX         MarkRecord    how far the server's disk is known to have been (mark.h);
 *                                    changes every second
 *   incarnation/INDEX  ServerRecord  without an address: the last incarnation that a start of the
 *                                    server has taken (incarnation.h)
 *
 * The messages are defined in state.proto. A record's revision is the coordinator's. */
#ifndef WEIR_COORD_RECORDS_FORMAT_H
#define WEIR_COORD_RECORDS_FORMAT_H

#include "common/base/message.h"
#include "server/records/assignment.h"
#include "server/records/mark.h"
#include "server/records/rewind_record.h"
#include "server/replica/replica.h"

#define COORD_RECORDS_VERSION 1u

/* "/weir/JOB/GENERATION/" */
void coord_records_prefix(const uint8_t uuid[16], uint64_t generation, char out[WEIR_COORD_KEY_BYTES_MAX]);

enum coord_records_kind {
	COORD_RECORDS_PARTITION,
	COORD_RECORDS_HOSTS,
	COORD_RECORDS_SERVER,
	COORD_RECORDS_START,
	COORD_RECORDS_NEXT,
	COORD_RECORDS_KINDS
};
/* id: 0 for COORD_RECORDS_NEXT, which is unique. */
void coord_records_key(const char *prefix, enum coord_records_kind kind, uint16_t id, char out[WEIR_COORD_KEY_BYTES_MAX]);
/* Splits a key behind the prefix into kind and id. False: another key. partitions: of the job. */
bool coord_records_key_read(const char *prefix, const char *key, uint32_t partitions, enum coord_records_kind *kind,
                            uint16_t *id);

void coord_records_mark_key(const uint8_t uuid[16], uint16_t server, char out[WEIR_COORD_KEY_BYTES_MAX]);
void coord_records_incarnation_key(const uint8_t uuid[16], uint16_t server, char out[WEIR_COORD_KEY_BYTES_MAX]);

/* The partition's name in logs: "7", or "ledger". Returns out. */
#define COORD_RECORDS_NAME_BYTES 8u
const char *coord_records_name(uint16_t partition, char out[COORD_RECORDS_NAME_BYTES]);

/* Returns one reference, with one span. NULL: out of memory. */
struct message *coord_records_pack(const struct replica_record *r);
struct message *coord_records_pack_assignment(const struct assignment *r);
struct message *coord_records_pack_server(const char *address, uint64_t incarnation);
struct message *coord_records_pack_next(const struct rewind_record *r);
struct message *coord_records_pack_mark(const struct mark *m);
/* Sets the record's revision to `revision`. E_CORRUPT: not such a record, or an impossible one.
 * E_VERSION: from a newer Weir. */
weir_status coord_records_unpack(const void *value, size_t bytes, uint64_t revision, struct replica_record *out,
                                 weir_error *err) WEIR_MUST_CHECK;
weir_status coord_records_unpack_assignment(const void *value, size_t bytes, uint64_t revision, struct assignment *out,
                                            weir_error *err) WEIR_MUST_CHECK;
/* address: (WEIR_ADDRESS_BYTES_MAX). */
weir_status coord_records_unpack_server(const void *value, size_t bytes, char *address, uint64_t *incarnation,
                                        weir_error *err) WEIR_MUST_CHECK;
weir_status coord_records_unpack_mark(const void *value, size_t bytes, struct mark *out, weir_error *err) WEIR_MUST_CHECK;
/* generation: the one that the record follows. */
weir_status coord_records_unpack_next(const void *value, size_t bytes, uint64_t generation, struct rewind_record *out,
                                      weir_error *err) WEIR_MUST_CHECK;

#endif
