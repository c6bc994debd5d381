/* What each kind of record is: one row per kind, in place of a switch at each use.
 *
 * A request comes from a client and has a reply. An entry is in the log. Most are both; some (EVICT,
 * TABLE, EPOCH, SCRUB) a partition puts into the log itself. Records between replicas and of the
 * ledger have a name alone: replica_wire.c and ledger_log.c have them. */
#ifndef WEIR_RECORD_TABLE_H
#define WEIR_RECORD_TABLE_H

#include "proto/frame/frame.h"

struct log_entry;
struct partition;
struct submission;

struct record_row {
	const char *name;
	uint8_t reply; /* the kind of its reply; 0: clients do not send it */
	bool to_all;   /* it may go to all partitions of a server at once */
	bool reads;    /* it changes no rows: an evaluator may send it */
	/* A record that comes: what answers it at once, or OK with the entry that it is to become in *e.
	 * NULL: it changes nothing. */
	weir_status (*submit)(struct submission *s, struct log_entry *e);
	/* Asks for the rows that it needs in memory. NULL: none. */
	weir_status (*want)(struct submission *s);
	/* An entry that is committed. NULL: it is never in a partition's log. */
	weir_status (*apply)(struct partition *p, const struct log_entry *e);
	/* Whether entry e of the tail, once applied, may change the answer to r, which is of this kind.
	 * NULL: never. */
	bool (*waits_for)(const struct record *e, const struct record *r);
};

/* The row of a kind. An unknown kind has one without any of these, named "unknown". */
const struct record_row *record_row(uint8_t kind);

#endif
