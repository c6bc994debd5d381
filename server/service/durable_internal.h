/* What durable.c (opening, running, stopping) and durable_recover.c (what a start finds) share.
 * Nobody else includes this. */
#ifndef WEIR_DURABLE_INTERNAL_H
#define WEIR_DURABLE_INTERNAL_H

#include "server/log/journal.h"
#include "server/log/sync_watch.h"
#include "server/records/mark.h"
#include "server/service/durable.h"

struct durable {
	struct durable_options options;
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct cold_sweep *sweep;
	struct pool *pool;       /* the server's */
	uint64_t rest, baseline; /* bytes: charged to it for what is no row; the process's memory at the start */
	struct journal *journal;
	struct sync_watch syncs;          /* of the journal */
	bool told_slow;                   /* the first executor's */
	_Atomic uint64_t journal_high;    /* bytes: a larger one is cut by a flush at once */
	struct mark known;                /* the folder has been there (mark.h); generation 0: that is not known */
	uint64_t began;                   /* where the log ended at the start */
	struct journal_channel *channels; /* (channels_count) of the partitions here, then the ledger's */
	uint32_t channels_count;
	/* (partitions, then the ledger) What stands in the place of a header. Unfinished: a snapshot
	 * was being received, it is empty, what the journal has of it is void. */
	struct found_header {
		bool is_unfinished;
		uint64_t from; /* position of the journal: the log began anew there; 0: as far as the header knows it did not */
	} * found;
	bool recovered, stopped_well;
	int64_t opened_ms;
	uint64_t recovery_ms, replayed_entries, replayed_bytes;
};

/* The log or RocksDB cannot go on; arg: the server. Any thread. */
void durable_failed(void *arg, const weir_error *err);
/* The status of a look at the folder or the log: E_STALE says what to do. */
weir_status durable_not_gone_back(const struct server *s, weir_status status, weir_error *err);
/* Flushes every partition and the ledger, and waits for it. From a thread that is no loop. */
void durable_flush_all(struct server *s);

#endif
