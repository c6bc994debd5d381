/* Encodes messages between replicas as records of a frame, and decodes them; frame.h has the
 * fields. A record that is read is checked completely, its entries too, so no later code needs to.
 * Bytes that no replica of this program could have sent are refused.
 *
 * The bytes of an entry go out uncopied from the primary's log, with the checksum that its journal
 * computed. The receiver reads them once, and writes the entry with that checksum to its own
 * journal. */
#ifndef WEIR_REPLICA_WIRE_H
#define WEIR_REPLICA_WIRE_H

#include "proto/frame/frame.h"
#include "server/log/log.h"
#include "server/replica/replica.h"

/* --- Writing */

/* Appends a record to the frame. m is of any kind; an APPEND has no entries. E_MEMORY, E_LIMIT:
 * nothing was appended. */
weir_status replica_wire_put(struct record_writer *w, uint16_t partition, const struct replica_message *m);
/* An APPEND with entries: replica_wire_begin, then replica_wire_add for each entry from m->first
 * on, then record_writer_end. m->last is ignored. The frame references the bytes of an entry's
 * message as long as it exists. */
void replica_wire_begin(struct record_writer *w, uint16_t partition, const struct replica_message *m);
weir_status replica_wire_add(struct record_writer *w, uint16_t partition, const struct log_entry *e);
/* The bytes of the entry in an APPEND. */
size_t replica_wire_bytes(const struct log_entry *e);

/* --- Reading */

struct replica_wire {
	uint16_t partition;             /* or JOURNAL_LEDGER */
	struct replica_message message; /* with the epochs below */
	struct epochs *epochs;          /* ESTABLISH, else NULL */
	/* (message.last - message.first + 1) of an APPEND; NULL: none */
	struct log_entry *entries;
	float *rates;              /* of the entries */
	struct message *frame;     /* holds the bytes that the entries point into; retained */
	uint32_t bytes;            /* of the record */
	struct replica_wire *next; /* in a list of its owner */
};

/* Reads the next record of an opened frame. End *out with replica_wire_destroy. E_MEMORY;
 * E_CORRUPT, E_LIMIT; E_VERSION; E_INVALID: not a kind for replicas. */
weir_status replica_wire_read(struct cursor *frame, struct replica_wire **out, weir_error *err) WEIR_MUST_CHECK;
void replica_wire_destroy(struct replica_wire *x); /* NULL is allowed */

#endif
