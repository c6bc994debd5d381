/* The ordered log of one partition (or of the ledger). An entry becomes durable as its kind of log
 * requires, then it is applied. log_memory.c keeps entries only in memory; log_disk.c also writes
 * them to the server's journal. One owner: the partition's executor.
 *
 * A committed entry stays in the log. The entries behind the last committed one, the tail, are not
 * applied: they may still be cut off, because the log of another replica may decide otherwise. Each
 * entry records how far its appender knew the log to be committed, so that recovery applies no
 * entry that may be cut later. With one copy of the partition (replicas: 1) an entry is committed
 * when it is in the log: `committed` is its own index. */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/message.h"
#include "proto/frame/frame.h"
#include "weir/status.h"

/* The primary's verdict on the numbers of a push. It makes every replica treat the push alike. */
enum log_finding {
	LOG_FINITE = 0,
	LOG_REJECTED = 1, /* a NaN or infinity: nothing is applied, the push counts as done (dedup.h) */
	LOG_CLIPPED = 2   /* a NaN or infinity: such elements count as 0 */
};

/* A record with the fields that the primary adds. It holds everything that applying needs. */
struct log_entry {
	uint64_t epoch, index; /* index counts from 1 without gaps */
	/* Entries up to this index were known to be committed when this entry was appended; at most
	 * index. */
	uint64_t committed;
	uint64_t generation;
	int64_t stamp_ms; /* the primary's monotone wall clock: the only time that applying uses */
	uint32_t rates_count;
	/* Learning rates after the schedules: PUSH (by section), CLOSE_STEP (by table id, up to the
	 * largest). */
	const float *rates;
	uint32_t finding; /* enum log_finding */
	struct record record;
	/* Holds the record's bytes; the log keeps a reference until released. */
	struct message *message;
	struct cursor body; /* the record's sections inside message */
	/* crc32c of all bytes that follow an entry's header in a journal (journal_format.h). The first
	 * reader of these bytes stores it, so it is computed once, from the primary's journal to those
	 * of its replicas. */
	bool has_payload_crc;
	uint32_t payload_crc;
};

struct log;
struct log_ops {
	/* Appends e (copied, including rates); its index must be last + 1. When it returns, the entry
	 * is in the log and survives the death of the process (log_disk). `durable` says which entries
	 * survive the death of the machine.
	 *
	 * E_NO_SPACE, E_MEMORY: nothing was appended; try again later. E_LIMIT: the entry is too large.
	 * Any other error (E_IO) is final: the server must stop. */
	weir_status (*append)(struct log *l, const struct log_entry *e, weir_error *err);
	/* NULL: released or not in the log; valid until the next append. */
	const struct log_entry *(*get)(struct log *l, uint64_t index);
	/* The first entry that get finds; last + 1: none. */
	uint64_t (*first)(const struct log *l);
	uint64_t (*last)(const struct log *l);
	/* The largest `committed` of all entries, including released ones; at least the index before
	 * the first entry. */
	uint64_t (*committed)(const struct log *l);
	/* Last index that is as safe as this log can make it; any thread. Only a cut lowers it. */
	uint64_t (*durable)(const struct log *l);
	void (*sync)(struct log *l); /* makes everything appended and cut durable soon; does not wait */
	/* Gives an applied entry that stays in memory its own copy of the record's bytes, so that its
	 * message can be freed. A large entry keeps its message. Changes nothing if memory is short. */
	void (*compact)(struct log *l, uint64_t index);
	/* Entries < index are no longer needed to apply steps: they leave memory. */
	void (*release_below)(struct log *l, uint64_t index);
	/* Entries < index are no longer needed for recovery, because a durable flush covers them: they
	 * may leave the disk. */
	void (*truncate_below)(struct log *l, uint64_t index);
	/* The two cuts have the errors of append; a failed cut has changed nothing. If the machine dies
	 * before a cut is durable, the cut and everything appended behind it are lost.
	 *
	 * truncate_above: entries > index are void, and the next entry is index + 1. index >=
	 * committed. At or above last it does nothing. */
	weir_status (*truncate_above)(struct log *l, uint64_t index, weir_error *err);
	/* All entries are void, and the next entry is `first`. Used behind a snapshot that covers the
	 * entries below. On disk nothing is durable until the cut is; then everything below `first`
	 * counts as durable. */
	weir_status (*restart)(struct log *l, uint64_t first, weir_error *err);
	/* The last restart is as safe as this log can make it. */
	bool (*is_restarted)(const struct log *l);
	/* On disk: the journal's position behind it; 0: no restart. */
	uint64_t (*restarted)(const struct log *l);
	void (*destroy)(struct log *l);
};
struct log {
	const struct log_ops *ops;
};

struct log *log_memory_create(void); /* NULL: out of memory */

/* --- On disk */

struct journal;
/* Creates the log of a channel of the journal, which must outlive it. `first`: index of the oldest
 * entry that log_disk_restore or append will add: 1 for a new job, else journal_channel.first of
 * the channel. NULL: out of memory. */
struct log *log_disk_create(struct journal *journal, uint16_t channel, uint64_t first);
/* Adds a replayed entry to the log's memory, as append does, without writing it again. Its index
 * must be last + 1. After the replay, last is journal_channel.last, and append continues.
 * E_MEMORY. */
weir_status log_disk_restore(struct log *l, const struct log_entry *e, weir_error *err);
/* The same for a replayed cut. E_CORRUPT: the cut voids an entry that other entries record as
 * committed. */
struct journal_cut;
weir_status log_disk_restore_cut(struct log *l, const struct journal_cut *cut, weir_error *err);

#endif
