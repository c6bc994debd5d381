/* The kinds of records: one row per kind, instead of a switch at each use.
 *
 * A request comes from a client and has a reply. An entry is in the log. Most kinds are both. A
 * partition itself appends some entries (EVICT, TABLE, EPOCH, SCRUB). Records between replicas and
 * of the ledger have only a name here; replica_wire.c and ledger_log.c handle them. */
#ifndef WEIR_RECORD_TABLE_H
#define WEIR_RECORD_TABLE_H

#include "proto/frame/frame.h"

struct log_entry;
struct partition;
struct submission;

struct record_row {
	const char *name;
	uint8_t reply; /* kind of its reply; 0: clients do not send it */
	bool to_all;   /* one record may go to all partitions of a server */
	bool reads;    /* changes no rows: an evaluator may send it */
	/* Handles an incoming record. Returns its immediate answer, or OK with the entry to append in
	 * *e. NULL: the record changes nothing. */
	weir_status (*submit)(struct submission *s, struct log_entry *e);
	/* Requests the rows that the record needs in memory. NULL: it needs none. */
	weir_status (*want)(struct submission *s);
	/* Applies a committed entry. NULL: never in a partition's log. */
	weir_status (*apply)(struct partition *p, const struct log_entry *e);
	/* Whether entry e of the tail, once applied, may change the answer to r, a record of this kind.
	 * NULL: never. */
	bool (*waits_for)(const struct record *e, const struct record *r);
};

/* The row of a kind. Unknown kinds share a row named "unknown" without any of these. */
const struct record_row *record_row(uint8_t kind);

#endif
