/* One partition: identities, log, rows, steps. The life of a push here: check its identity, append an entry to the log, apply the
 * committed entry, reply. Everything that changes rows or identities is an entry (push, seal, close step, retire, assign; tables come from the ledger's registry), and applying reads nothing but
 * the entry and the state, so that replicas applying the same log are equal.
 *
 * One owner: the executor (an rpc_loop) that it was created for calls every function. Replies come through callbacks on that thread, maybe
 * before the call returns. */
#ifndef WEIR_PARTITION_H
#define WEIR_PARTITION_H

#include <stdint.h>

#include "clock.h"
#include "frame.h"
#include "log.h"
#include "logger.h"
#include "metrics.h"
#include "store.h"

struct partition;
struct record_writer;

/* What a NaN or infinity in a push does. The numbers are those of enum not_finite_policy in common/job.h. */
enum partition_not_finite { PARTITION_REJECT, PARTITION_CLIP, PARTITION_ACCEPT };

struct partition_options {
	uint32_t id, partitions;
	uint64_t generation;
	struct log *log; /* taken over */
	const struct clock *clock;
	struct logger *logger;
	uint32_t not_finite; /* enum partition_not_finite */
};

/* Counters of the status report; the executor writes them, anyone may read. */
struct partition_counters {
	_Atomic uint64_t applied, parts_applied, fingerprint, parts_dropped, dropped_fingerprint, parts_double, units_open, rows;
	_Atomic uint64_t duplicates_refused, stale_refused, nonfinite_refused;
};

/* Of one table in one partition; the same rule. */
struct partition_table_counters {
	_Atomic uint64_t pushes, pulls; /* records with rows of it */
};

struct partition_reply {
	weir_status status;
	uint64_t applied, stable; /* log indices */
	uint32_t staleness;
	const uint8_t *bitmap; /* SEAL: parts present, valid during the callback */
	uint32_t bitmap_bits;
	const char *text;
};
typedef void (*partition_reply_fn)(void *arg, const struct partition_reply *reply);

struct partition *partition_create(const struct partition_options *options, weir_error *err);
void partition_destroy(struct partition *p);
weir_status partition_add_table(struct partition *p, uint32_t id, const weir_table_spec *spec, weir_error *err);
/* A record that changes state: PUSH, SEAL, CLOSE_STEP, RETIRE, ASSIGN. body: its sections, inside m (retained as long as needed). */
void partition_submit(struct partition *p, const struct record *r, const struct cursor *body, struct message *m,
                      partition_reply_fn reply, void *arg);
/* Whether rows may be read for a pull that needs `step` applied (0: always). When not, `ready` runs once it is or when the deadline passes (status then). */
bool partition_readable(const struct partition *p, uint64_t step);
void partition_park(struct partition *p, uint64_t step, int64_t deadline_ms, void (*ready)(void *arg, weir_status status),
                    void *arg);
void partition_tick(struct partition *p, int64_t now_ms); /* expires parked pulls */
uint32_t partition_id(const struct partition *p);
uint64_t partition_applied(const struct partition *p);
struct store *partition_store(struct partition *p);
const struct partition_counters *partition_get_counters(const struct partition *p);
const struct partition_table_counters *partition_table_get_counters(const struct partition *p,
                                                                    uint32_t table); /* NULL: unknown */
/* Staleness counts of pushes to a table, by common/metrics.h's buckets. */
struct histogram *partition_staleness(struct partition *p, uint32_t table); /* NULL: unknown */

/* Answers a pull: writes its PULL_REPLY record, gathering rows straight into the writer's memory. What is wrong with the request is in the reply. */
void partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w);
/* Writes the SCAN_REPLY record with up to rows_max rows of a table from `cursor` on. slots: optimizer slots behind each row's value. */
void partition_scan(struct partition *p, uint32_t table, uint64_t cursor, uint32_t rows_max, bool slots, struct record_writer *w);
/* Writes a reply to request r that is a status and, when text is not NULL, a section (table 0, width 0) with the text. */
void partition_write_error(struct record_writer *w, const struct record *r, uint8_t kind, weir_status status, const char *text);

#endif
