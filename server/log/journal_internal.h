/* Internals shared by the files of the journal: journal.c (open, close), journal_write.c (segments,
 * append), journal_sync.c (the thread: fsync, watchers, deletion), journal_replay.c (recovery).
 * Only these files include it.
 *
 * One lock, `lock`, guards every field below it in the struct. Files are created and written under
 * the lock, so entries lie in the order of their positions. The thread's fsync runs without the
 * lock, and a segment is sealed only while no fsync runs. Watchers and `failed` are called without
 * the lock. */
#ifndef WEIR_JOURNAL_INTERNAL_H
#define WEIR_JOURNAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "server/log/journal.h"
#include "server/log/journal_format.h"

#define JOURNAL_CHANNELS (WEIR_PARTITIONS_MAX + 1u) /* the partitions and, last, the ledger */
/* Size of one read during replay. An entry kept in memory keeps its whole read buffer. */
#define JOURNAL_READ_BYTES (256u << 10)

struct journal_watcher {
	_Atomic uint64_t durable; /* last durable index; written under lock, read by any thread */
	journal_watch_fn watch;
	void *ctx;
};

/* By slot (journal_slot). */
struct journal_indices {
	uint64_t of[JOURNAL_CHANNELS];
};

struct journal_segment {
	uint64_t number;
	uint32_t version;    /* of its bytes */
	uint64_t start, end; /* positions; end is valid for a sealed segment */
	/* Last index of each channel at the segment's end, with cuts applied; NULL until it is
	 * sealed. */
	struct journal_indices *last;
};

struct journal {
	struct journal_options options; /* directory and holder are copies */
	struct disk_file *folder_lock;
	struct journal_watcher watchers[JOURNAL_CHANNELS];

	pthread_mutex_t lock;
	pthread_cond_t work; /* wakes the thread */
	/* Wakes waiters: an fsync ended, watchers were told, or the journal failed. */
	pthread_cond_t progress;
	/* (count) oldest first. The last one is being written while `file` is open. */
	struct journal_segment *segments;
	uint32_t count, capacity;
	struct disk_file *file;        /* NULL: the next append begins a segment */
	uint64_t first_bytes;          /* of a process's first segment; set once */
	uint64_t next_bytes;           /* of the next segment, unless its first entry needs more */
	uint64_t limit;                /* position up to which the current segment may be filled */
	uint64_t end;                  /* position behind the last byte written */
	uint64_t entries_end;          /* position behind the last entry or cut */
	uint64_t wanted;               /* everything below must become durable now */
	uint64_t synced;               /* everything below is durable */
	uint64_t witnessed;            /* the journal itself records that everything below is durable */
	uint64_t told;                 /* watchers know that everything below is durable */
	struct journal_indices last;   /* appended */
	struct journal_indices stable; /* durable, maybe not told yet */
	struct journal_indices needed; /* first index that recovery needs */
	/* Position of the channel's last restart; 0: none. Entries before it are void once it is
	 * durable. */
	struct journal_indices restarted;
	bool syncing, stopping, failure_told;
	weir_error failure; /* final; status OK: no failure */
	struct journal_stats stats;

	bool replayed;
	bool running; /* the thread runs */
	pthread_t thread;
	struct journal_indices syncing_last; /* the thread's: covered by its fsync */
	struct journal_indices telling;      /* the thread's: to be told to watchers; 0: nothing */
};

/* Returns the slot of a channel, which must be valid. */
static inline uint32_t journal_slot(uint16_t channel)
{
	return channel == JOURNAL_LEDGER ? WEIR_PARTITIONS_MAX : channel;
}
static inline uint16_t journal_channel_of(uint32_t slot)
{
	return slot == WEIR_PARTITIONS_MAX ? (uint16_t)JOURNAL_LEDGER : (uint16_t)slot;
}

/* Paths: WEIR_PATH_BYTES_MAX each. */
void journal_segment_path(const struct journal *j, uint64_t number, char *out);
weir_status journal_add_segment(struct journal *j, uint64_t number, uint64_t start, weir_error *err);
/* Records the last indices of the channels at the segment's end. */
weir_status journal_close_segment(struct journal_segment *s, uint64_t end, const struct journal_indices *last, weir_error *err);
/* With lock: records the failure. Nothing is written any more, and the thread calls `failed`.
 * Returns err's status. */
weir_status journal_fail(struct journal *j, const weir_error *err);
/* With lock: writes at the end. E_NO_SPACE: nothing was written. Any other error is final. */
weir_status journal_write(struct journal *j, const struct span *spans, uint32_t count, weir_error *err);
/* With lock: writes a mark if all entries are durable but the journal does not record it. */
weir_status journal_mark(struct journal *j, weir_error *err);

/* With lock, while no fsync runs: truncates the current segment to its end, makes it durable and
 * closes it. */
weir_status journal_seal(struct journal *j, weir_error *err);

/* With lock: begins a segment and reserves `bytes` for it, including its header. E_NO_SPACE:
 * nothing has changed. Any other error is final. */
weir_status journal_begin(struct journal *j, uint64_t bytes, weir_error *err);

/* With lock: journal_restate records the end of each channel's log again, in
 * journal_restating_bytes bytes. At the next start a database that is behind this end is detected
 * (journal_replay.c), even if no entry is left. */
uint64_t journal_restating_bytes(const struct journal *j);
weir_status journal_restate(struct journal *j, weir_error *err);

/* With lock: whether recovery may need entries of the segment, which is sealed. */
bool journal_needs(const struct journal *j, const struct journal_segment *s);
/* Deletes the oldest segment. With lock, which it releases in between. A failure is final. */
weir_status journal_drop_oldest(struct journal *j, weir_error *err);

weir_status journal_start_thread(struct journal *j, weir_error *err);
void journal_stop_thread(struct journal *j); /* completes earlier requests first */

#endif
