/* What replicas say to each other as records of a frame, and back; frame.h has the fields. A record that is read has been checked as a whole, its entries
 * too, so that nobody behind needs to: bytes that are not what a replica of this program could have sent are refused.
 *
 * An entry's bytes go as the primary's log has them, uncopied, under the checksum that its journal computed; they are read once at the other end, and what is
 * read there is the entry that its journal gets, with that checksum. */
#ifndef WEIR_REPLICA_WIRE_H
#define WEIR_REPLICA_WIRE_H

#include "proto/frame/frame.h"
#include "server/log/log.h"
#include "server/replica/replica.h"

/* --- Writing */

/* Appends a record to the frame; m is of any kind, an APPEND without entries. E_MEMORY, E_LIMIT: nothing was appended. */
weir_status replica_wire_put(struct record_writer *w, uint16_t partition, const struct replica_message *m);
/* An APPEND with entries: begin, then replica_wire_add for each from m->first on, then record_writer_end. m->last does not matter. What an entry's message
 * holds is referenced until the frame is gone. */
void replica_wire_begin(struct record_writer *w, uint16_t partition, const struct replica_message *m);
weir_status replica_wire_add(struct record_writer *w, uint16_t partition, const struct log_entry *e);
/* The bytes it takes in an APPEND. */
size_t replica_wire_bytes(const struct log_entry *e);

/* --- Reading */

struct replica_wire {
	uint16_t partition;             /* or JOURNAL_LEDGER */
	struct replica_message message; /* with epochs: those below */
	struct epochs *epochs;          /* ESTABLISH, else NULL */
	struct log_entry *entries;      /* (message.last - message.first + 1) of an APPEND; NULL: none */
	float *rates;                   /* theirs */
	struct message *frame;          /* holds what the entries point into; retained */
	uint32_t bytes;                 /* of the record */
	struct replica_wire *next;      /* in a list of whoever has it */
};

/* The next record of an opened frame; *out is freed with replica_wire_free. E_MEMORY; E_CORRUPT, E_LIMIT; E_VERSION; E_INVALID: of a kind that is not for
 * replicas. */
weir_status replica_wire_read(struct cursor *frame, struct replica_wire **out, weir_error *err) WEIR_MUST_CHECK;
void replica_wire_free(struct replica_wire *x); /* NULL is allowed */

#endif
