/* A server whose log is on disk: its folder, its journal, its RocksDB, what recovers them at start, and what keeps them small. */
#ifndef WEIR_DURABLE_H
#define WEIR_DURABLE_H

#include "server/service/server.h"
#include "server/service/server_internal.h"

/* In the order of a start. What was opened is closed by durable_close, also after a failure. */

/* Takes the folder, opens the journal and RocksDB. restore: the folder may be filled from a checkpoint. */
weir_status durable_open(struct server *s, const struct durable_options *options, bool restore, weir_error *err);
/* Whether it is to be: it is new, or was not filled to the end. Then partitions and the ledger are, between their creation and durable_recover. */
bool durable_is_restoring(const struct server *s);
/* How far this server's disk is known to be; and where its log ended when this start found it. */
struct mark durable_mark(const struct server *s);
uint64_t durable_began(const struct server *s);
/* What a partition needs beyond options->id, and its store beyond what one in memory has. */
void durable_prepare_partition(struct server *s, struct partition_options *options, struct store_options *store);
/* Tables, header and rows of the last flush into the new partition. */
weir_status durable_fill_partition(struct server *s, struct partition *p, weir_error *err);
/* Rows of the partition that lie below, until memory is full, its share of options.rows_at_start at most. Its tables are there. */
weir_status durable_load_rows(struct server *s, struct partition *p, weir_error *err);
/* The ledger's last snapshot, and every entry since the last flushes. Afterwards the server may serve. */
weir_status durable_recover(struct server *s, weir_error *err);

/* Keeps a table that the partitions have, before anyone is told so: who registers it may push to it. Any thread. */
weir_status durable_add_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err);
/* On an executor's loop, and the ledger's, now and then: flushes what keeps a large journal from
 * getting smaller. */
void durable_tick(struct server *s, struct executor *e);
void durable_ledger_tick(struct server *s);
/* The log of one that comes while the server runs, before its first entry. On its executor's loop. */
weir_status durable_begin_partition(struct server *s, struct partition *p, weir_error *err);
/* Everything that was appended is durable when it returns. From a thread that is no loop. */
void durable_settle(struct server *s);
/* The server is about to end: what is logged from here on may stay uncommitted, and shall not
 * keep the log in front of it. From a thread that is no loop. */
void durable_turn_journal(struct server *s);
/* Nothing is accepted any more and nobody waits: flushes all (unless the disk is full) and ends the threads that write. The loops must run. */
void durable_stop(struct server *s);
void durable_close(struct server *s); /* after the loops and the partitions */

/* From any thread, while the server is there: syncs of its log take so long that others should not
 * wait for it (sync_watch.h). */
bool durable_is_slow(const struct server *s);
void durable_watch_tick(struct server *s); /* called every WEIR_HEART_TICK_MS, by one thread */

/* For the status report. */
struct durable_status {
	uint64_t recovery_ms, replayed_entries, replayed_bytes, journal_bytes, budget_bytes;
	uint64_t memory_bytes; /* of the process, beyond what it began with; where it is not ours alone, what is counted */
	uint64_t keys;         /* rows on disk, about */
	bool disk_full;        /* rows cannot be written */
	uint64_t sync_ms;      /* of the log's last sync, or of a longer one under way */
	bool disk_slow;        /* durable_is_slow */
};
void durable_get_status(const struct server *s, struct durable_status *out);

#endif
