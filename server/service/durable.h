/* Storage of a server whose log is on disk: its folder, its journal, its RocksDB, their recovery at
 * start, and the work that keeps them small. */
#ifndef WEIR_DURABLE_H
#define WEIR_DURABLE_H

#include "server/service/server.h"
#include "server/service/server_internal.h"

/* Functions in the order of a start. durable_close closes what was opened, also after a failure. */

/* Takes the folder, opens the journal and RocksDB. restore: the folder may be filled from a
 * checkpoint. */
weir_status durable_open(struct server *s, const struct durable_options *options, bool restore, weir_error *err);
/* Whether the folder is to be filled from a checkpoint, because it is new or was not filled to the
 * end. Partitions and the ledger are filled between their creation and durable_recover. */
bool durable_is_restoring(const struct server *s);
/* durable_mark: how far this server's disk is known to be. durable_began: where its log ended when
 * this start found it. */
struct mark durable_mark(const struct server *s);
uint64_t durable_began(const struct server *s);
/* Sets what a partition needs beyond options->id, and what its store needs beyond a store in
 * memory. */
void durable_prepare_partition(struct server *s, struct partition_options *options, struct store_options *store);
/* Loads tables, header and rows of the last flush into the new partition. */
weir_status durable_fill_partition(struct server *s, struct partition *p, weir_error *err);
/* Loads rows of the partition from RocksDB until memory is full, at most its share of
 * options.rows_at_start. Its tables exist. */
weir_status durable_load_rows(struct server *s, struct partition *p, weir_error *err);
/* Recovers the ledger's last snapshot, and every entry since the last flushes. Afterwards the
 * server may serve. */
weir_status durable_recover(struct server *s, weir_error *err);

/* Stores in the folder a table that the partitions have, before anyone is told: a client that
 * registers the table may push to it at once. Any thread. */
weir_status durable_add_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err);
/* Flushes the partitions or the ledger whose entries keep a large journal from shrinking. Call now
 * and then on an executor's loop; durable_ledger_tick on the ledger's. */
void durable_tick(struct server *s, struct executor *e);
void durable_ledger_tick(struct server *s);
/* Creates the log of a partition that is added while the server runs, before its first entry. On
 * its executor's loop. */
weir_status durable_begin_partition(struct server *s, struct partition *p, weir_error *err);
/* The log or RocksDB cannot continue; arg: the server. Any thread. */
void durable_failed(void *arg, const weir_error *err);
/* On return, everything that was appended is durable. From a thread that is no loop. */
void durable_settle(struct server *s);
/* The server is about to end. Entries logged from here on may stay uncommitted, and must not hold
 * back the deletion of the log before them. From a thread that is no loop. */
void durable_turn_journal(struct server *s);
/* Flushes all (unless the disk is full) and ends the threads that write. Nothing is accepted any
 * more and nobody waits. The loops must run. */
void durable_stop(struct server *s);
void durable_close(struct server *s); /* after the loops and the partitions */

/* Whether syncs of the log take so long that other servers should not wait for this one
 * (sync_watch.h). Any thread, while the server exists. */
bool durable_is_slow(const struct server *s);
void durable_watch_tick(struct server *s); /* call every WEIR_HEARTBEAT_TICK_MS, on one thread */

/* For the status report. */
struct durable_status {
	uint64_t recovery_ms, replayed_entries, replayed_bytes, journal_bytes, budget_bytes;
	/* Of the process, beyond its baseline at the start. If the process is shared: the counted
	 * bytes. */
	uint64_t memory_bytes;
	uint64_t keys;    /* rows on disk, about */
	bool disk_full;   /* rows cannot be written */
	uint64_t sync_ms; /* of the log's last sync, or of a longer one under way */
	bool disk_slow;   /* durable_is_slow */
};
void durable_get_status(const struct server *s, struct durable_status *out);

#endif
