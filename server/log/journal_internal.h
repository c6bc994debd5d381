/* What the files of the journal share: journal.c (open, close), journal_write.c (segments, append), journal_sync.c (the thread: fsync, watchers, deletion),
 * journal_replay.c (recovery). Nobody else includes this.
 *
 * One lock, `lock`, over everything below it in the struct. Files are written and begun under it, so entries lie in the order of their positions; the
 * thread's fsync runs without it, and a segment is sealed only while none runs. Neither watchers nor `failed` are called under it. */
#ifndef WEIR_JOURNAL_INTERNAL_H
#define WEIR_JOURNAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "server/log/journal.h"
#include "server/log/journal_format.h"

#define JOURNAL_CHANNELS   (WEIR_PARTITIONS_MAX + 1u) /* the partitions and, last, the ledger */
#define JOURNAL_READ_BYTES (256u << 10)               /* replay reads so much at once; one entry kept in memory keeps it all */

struct journal_watcher {
	_Atomic uint64_t durable; /* last durable index; written under lock, read by anyone */
	journal_watch_fn watch;
	void *ctx;
};

/* By slot (journal_slot). */
struct journal_indices {
	uint64_t of[JOURNAL_CHANNELS];
};

struct journal_segment {
	uint64_t number;
	uint32_t version;             /* of its bytes */
	uint64_t start, end;          /* positions; end of a sealed one */
	struct journal_indices *last; /* each channel's last index at its end, cuts done; NULL until sealed */
};

struct journal {
	struct journal_options options; /* directory and holder are copies */
	struct disk_file *folder_lock;
	struct journal_watcher watchers[JOURNAL_CHANNELS];

	pthread_mutex_t lock;
	pthread_cond_t work;              /* for the thread */
	pthread_cond_t progress;          /* an fsync ended, or its watchers were told, or it failed */
	struct journal_segment *segments; /* (count) oldest first; the last one is written to while `file` is open */
	uint32_t count, capacity;
	struct disk_file *file;        /* NULL: the next append begins a segment */
	uint64_t first_bytes;          /* of a process's first segment; set once */
	uint64_t next_bytes;           /* of the one that is begun next, if its first entry needs no more */
	uint64_t limit;                /* position that the current segment may be filled to */
	uint64_t end;                  /* position behind the last byte written */
	uint64_t entries_end;          /* ... behind the last entry or cut */
	uint64_t wanted;               /* all below is to be made durable now */
	uint64_t synced;               /* all below is durable */
	uint64_t witnessed;            /* ... and the journal itself says so of all below this */
	uint64_t told;                 /* ... and watchers know of all below this */
	struct journal_indices last;   /* appended */
	struct journal_indices stable; /* durable, maybe not told yet */
	struct journal_indices needed; /* first index that recovery needs */
	/* Position of the channel's last restart: entries in front of it are void once it is
	 * durable. 0: none. */
	struct journal_indices restarted;
	bool syncing, stopping, failure_told;
	weir_error failure; /* final; status OK: none */
	struct journal_stats stats;

	bool replayed;
	bool running; /* the thread */
	pthread_t thread;
	struct journal_indices syncing_last; /* the thread's: what its fsync covers */
	struct journal_indices telling;      /* the thread's: what it is about to tell; 0: nothing */
};

/* Slot of a channel; asserts that there is one. */
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
/* Notes the channels' last indices as those at the segment's end. */
weir_status journal_close_segment(struct journal_segment *s, uint64_t end, const struct journal_indices *last, weir_error *err);
/* With lock: nothing is written any more, and the thread tells. Returns err's status. */
weir_status journal_fail(struct journal *j, const weir_error *err);
/* With lock: writes at the end. E_NO_SPACE: nothing was written. Else final. */
weir_status journal_write(struct journal *j, const struct span *spans, uint32_t count, weir_error *err);
/* With lock: when all entries are durable but nothing in the journal says so, writes a mark. */
weir_status journal_mark(struct journal *j, weir_error *err);

/* With lock, while no fsync runs: cuts the current segment to its end, makes it durable and closes it. */
weir_status journal_seal(struct journal *j, weir_error *err);

/* With lock: begins a segment and reserves `bytes` for it, its header included. E_NO_SPACE:
 * nothing has changed. Else final. */
weir_status journal_begin(struct journal *j, uint64_t bytes, weir_error *err);

/* With lock: states the end of each channel's log once more, in so many bytes. A database that is
 * behind it shows itself at the next start (journal_replay.c), though no entry is left. */
uint64_t journal_restating_bytes(const struct journal *j);
weir_status journal_restate(struct journal *j, weir_error *err);

/* With lock: whether recovery may need entries of the segment, which is sealed. */
bool journal_needs(const struct journal *j, const struct journal_segment *s);
/* With lock, which is released meanwhile: deletes the oldest segment. What fails is final. */
weir_status journal_drop_oldest(struct journal *j, weir_error *err);

weir_status journal_start_thread(struct journal *j, weir_error *err);
void journal_stop_thread(struct journal *j); /* what was asked for before is done first */

#endif
