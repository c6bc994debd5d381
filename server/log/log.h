/* The ordered log of one partition (or of the ledger): an entry is made durable as its place demands, then applied. log_memory.c keeps entries
 * in memory only; log_disk.c also writes them to the server's journal. One owner: the partition's executor.
 *
 * Committed. An entry that is committed stays; those behind the last committed one, the tail, may still be cut off, as another replica's log may
 * decide otherwise, and are not applied. Each entry says how far its appender knew the log to be committed, so that recovery applies no entry that
 * may be cut later. With one copy of the partition (replicas: 1) an entry is committed by being in the log: `committed` is its own index. */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/message.h"
#include "proto/frame/frame.h"
#include "weir/status.h"

/* What the primary's look at a push's numbers found, so that every replica treats it alike. */
enum log_finding {
	LOG_FINITE = 0,
	LOG_REJECTED = 1, /* a NaN or infinity: nothing is applied, the identity is done */
	LOG_CLIPPED = 2   /* a NaN or infinity: such elements count as 0 */
};

/* What the primary adds to a record. Everything that applying needs and that is not in the record is here. */
struct log_entry {
	uint64_t epoch, index; /* index counts from 1 without gaps */
	uint64_t committed;    /* entries up to here are committed, as far as was known when this was appended; at most index */
	uint64_t generation;
	int64_t stamp_ms; /* the primary's monotone wall clock: the only time that applying sees */
	uint32_t rates_count;
	const float *rates; /* learning rates after the schedules: PUSH (sections), CLOSE_STEP (tables by id, up to the largest) */
	uint32_t finding;   /* enum log_finding */
	struct record record;
	struct message *message; /* holds the record's bytes; the log keeps a reference until released */
	struct cursor body;      /* the record's sections inside message */
	/* crc32c of all that follows an entry's header in a journal (journal_format.h): whoever has read these bytes has noted it, so that it is
	 * computed once, from the primary's journal to its replicas' */
	bool has_payload_crc;
	uint32_t payload_crc;
};

struct log;
struct log_ops {
	/* Appends e (copied, rates too); its index must be last + 1. Returns when the entry is in the log and so survives the death of the process
	 * (log_disk); `durable` says how far the machine's is survived.
	 * E_NO_SPACE, E_MEMORY: nothing was appended, try again later. E_LIMIT: it is larger than an entry may be. Else (E_IO, final): the server must
	 * stop. */
	weir_status (*append)(struct log *l, const struct log_entry *e, weir_error *err);
	const struct log_entry *(*get)(struct log *l,
	                               uint64_t index); /* NULL when released or not there; valid until the next append */
	uint64_t (*first)(const struct log *l);         /* the first that get finds; last + 1: none */
	uint64_t (*last)(const struct log *l);
	/* The largest `committed` of its entries, also of released ones; at least what was in front of them. */
	uint64_t (*committed)(const struct log *l);
	/* Last index that is as safe as this log can make it; any thread. Only a cut takes it back. */
	uint64_t (*durable)(const struct log *l);
	void (*sync)(struct log *l); /* makes all that is appended and cut durable soon; does not wait */
	/* An entry that `get` finds stays though it is applied: unless it is large, it has a copy of its own from now on, and its message can go. For want of memory it
	 * stays as it is. */
	void (*compact)(struct log *l, uint64_t index);
	/* Entries < index are not needed to apply steps any more: they leave memory. */
	void (*release_below)(struct log *l, uint64_t index);
	/* Entries < index are not needed to recover any more, as a durable flush covers them: they may leave the disk. */
	void (*truncate_below)(struct log *l, uint64_t index);
	/* The two cuts. Errors as of append; what failed has changed nothing. A cut that was not durable is lost with the machine, and then so is
	 * everything that was appended behind it. */
	/* Entries > index are void: the next one is index + 1. index >= committed; at or above last: nothing to do. */
	weir_status (*truncate_above)(struct log *l, uint64_t index, weir_error *err);
	/* All entries are void: the next one is `first`. Behind a snapshot that covers what is below. On disk nothing is durable until the cut is, and
	 * then everything below `first` counts as durable. */
	weir_status (*restart)(struct log *l, uint64_t first, weir_error *err);
	bool (*is_restarted)(const struct log *l);  /* the last restart is as safe as this log can make it */
	uint64_t (*restarted)(const struct log *l); /* on disk: the journal's position behind it; 0: there was none */
	void (*destroy)(struct log *l);
};
struct log {
	const struct log_ops *ops;
};

struct log *log_memory_create(void); /* NULL when out of memory */

/* --- On disk */

struct journal;
/* The log of a channel of the journal, which outlives it. `first`: index of the oldest entry that will be put into it, by log_disk_restore or
 * append: 1 for a new job, else what the channel's journal_channel.first was. NULL when out of memory. */
struct log *log_disk_create(struct journal *journal, uint16_t channel, uint64_t first);
/* Puts a replayed entry into the log's memory, as append would, without writing it again. Its index must be last + 1. E_MEMORY.
 * Once the replay is over, last is journal_channel.last and append goes on. */
weir_status log_disk_restore(struct log *l, const struct log_entry *e, weir_error *err);
/* The same of a replayed cut. E_CORRUPT: it voids an entry that others say is committed. */
struct journal_cut;
weir_status log_disk_restore_cut(struct log *l, const struct journal_cut *cut, weir_error *err);

#endif
