/* Shared by durable.c (opening, running, stopping) and durable_recover.c (recovery at a start).
 * Nothing else includes this. */
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
	struct memory_budget *budget; /* the server's memory budget */
	/* In bytes. rest: charged to the memory budget for all that is not rows. baseline: the
	 * process's memory at the start. */
	uint64_t rest, baseline;
	struct journal *journal;
	struct sync_watch syncs;       /* of the journal */
	bool told_slow;                /* the first executor's */
	_Atomic uint64_t journal_high; /* bytes: a larger journal is cut by a flush at once */
	struct mark known;             /* how far the folder has been (mark.h); generation 0: unknown */
	uint64_t began;                /* where the log ended at the start */
	/* (channels_count) of the partitions here, then the ledger's. */
	struct journal_channel *channels;
	uint32_t channels_count;
	/* (partitions, then the ledger) Markers found in place of a header. is_unfinished: a snapshot
	 * was being received; the partition is empty, and the journal's entries for it are void. */
	struct found_header {
		bool is_unfinished;
		/* Journal position at which the log began again. 0: it did not, as far as the header
		 * shows. */
		uint64_t from;
	} * found;
	bool recovered, stopped_well;
	int64_t opened_ms;
	uint64_t recovery_ms, replayed_entries, replayed_bytes;
};

/* Passes on the status of a check of the folder or the log. E_STALE: adds what to do. */
weir_status durable_not_gone_back(const struct server *s, weir_status status, weir_error *err);
/* Flushes every partition and the ledger, and waits. From a thread that is no loop. */
void durable_flush_all(struct server *s);

#endif
