/* The journal of one server: the log entries of all its partitions and of the ledger, each on a channel of its own, in one sequence of segment
 * files, so that one fsync makes all of them durable (group commit). journal_format.h has the bytes.
 *
 *   journal_open    locks the folder, reads the segments' headers
 *   journal_replay  once: reads every entry, hands over those that are needed, cuts off a torn tail
 *   journal_append  from any thread: the entry is in the page cache when it returns (the process may die, the machine may not)
 *   journal_cut     the same for a cut, which voids entries of a channel
 *   a thread of the journal's own fsyncs at an interval and on request, then tells each channel how far it is durable
 *   journal_truncate_below  as flushes cover entries; whole segments are deleted, oldest first
 *   journal_close   after the last append: everything is durable, what flushes cover is deleted, and the journal ends cleanly
 *
 * What a crash may leave. Entries that were not durable may be lost or torn, also out of order: the log ends before the first bad one. If anything
 * behind it shows that the bad one had been durable (a later segment, a later entry that says how far the journal was durable when it was written), it is
 * not a torn tail but damage: E_CORRUPT names file, offset, and what is missing, and nothing is changed. What is behind a torn tail is never read again.
 * A log that ends before options.durable_known has gone back in time: E_STALE, and nothing is changed either.
 *
 * Errors. A full disk shows when a segment begins, as its space is reserved: E_NO_SPACE, nothing was appended, later calls try again. Any other
 * failure to write, and every failure to fsync, is final: the journal accepts nothing more, no index becomes durable, `failed` is told. */
#ifndef WEIR_JOURNAL_H
#define WEIR_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/disk.h"
#include "server/log/log.h"
#include "weir/status.h"

#define JOURNAL_LEDGER 0xffffu /* the ledger's channel; a partition's is its id, below WEIR_PARTITIONS_MAX */

struct journal;
struct sync_watch;

struct journal_options {
	struct disk *disk;         /* outlives the journal */
	const char *directory;     /* made when missing */
	uint8_t id[16];            /* whose journal it is: files of another are refused, those with none are taken */
	const char *holder;        /* who opens it, for whoever finds it locked: "server 1 of job x, pid 77" */
	uint64_t segment_bytes;    /* at most; 0: WEIR_JOURNAL_SEGMENT_BYTES */
	uint32_t sync_interval_ms; /* fsync at least so often while something is not durable; 0: only when asked */
	struct sync_watch *watch;  /* of its syncs; outlives the journal. May be NULL */
	uint64_t durable_known;    /* it was durable up to this position (mark.h); 0: that is not known */
	/* The journal cannot go on (once, any thread, after which append says the same): the server must stop. May be NULL. */
	void (*failed)(void *ctx, const weir_error *err);
	void *ctx;
};

/* E_BUSY: another process has it; E_VERSION: written by a newer Weir; E_CORRUPT; E_IO. Nothing was changed then. */
weir_status journal_open(struct journal **out, const struct journal_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Makes everything durable and ends cleanly, unless it failed before; the answer says whether
 * all is well. A log that flushes cover leaves one file without entries, which keeps the
 * position. Needs: no thread appends any more; no watcher runs once it returns. NULL is allowed. */
weir_status journal_close(struct journal *j, weir_error *err);

/* --- Recovery */

struct journal_channel {
	uint16_t channel;
	/* in: entries from here on are handed over. One that has been truncated away is missed: E_CORRUPT, unless the channel was restarted. */
	uint64_t first;
	/* in: flushes show that entries up to here were durable (0: none); if the journal holds a part of them only: E_CORRUPT. Of a channel that was
	 * restarted this may speak of what was before, so nothing is said: the caller must compare it with what it has been given. */
	uint64_t flushed;
	/* out: last index in the journal, or the larger of flushed and first - 1 when all of it is truncated; append goes on behind it. */
	uint64_t last;
	bool restarted; /* out */
	/* in: entries and cuts in front of this position are not handed over, as they are void; a
	 * restart comes before it. 0: all are wanted */
	uint64_t from;
	/* in: nothing of it is wanted: entries and cuts are not handed over, and none is missed. It must be restarted before anything is appended. */
	bool is_void;
};
/* What a channel's log goes back to: entries from `next` on are void, and the next one has that index. restart: those below are void too. */
struct journal_cut {
	uint64_t next;
	bool restart;
};
/* An entry in order: by channel without gaps, across channels as they were appended. Valid during the call; what is to stay retains e->message (a shared
 * read buffer of up to JOURNAL_READ_BYTES) and copies e and its rates; log_disk_restore does. Not OK stops the replay with that status. */
typedef weir_status (*journal_entry_fn)(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err);
/* A cut, in its place among the entries: of what was handed over, that from cut->next on is void (never below `first`, as nothing below was handed over). */
typedef weir_status (*journal_cut_fn)(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err);
struct journal_reader {
	journal_entry_fn entry;
	journal_cut_fn cut;
	void *ctx;
};
/* Reads the whole journal, one pass, and makes what is left of it durable. Must come once, before anything else, also for a new journal (then
 * nothing is handed over). Every channel that will be used is in `channels`; entries of any other: E_CORRUPT. */
weir_status journal_replay(struct journal *j, struct journal_channel *channels, uint32_t count,
                           const struct journal_reader *reader, weir_error *err) WEIR_MUST_CHECK;

/* --- Running */

/* Called by the journal's thread after each fsync that moved the channel's durable index: posts to the executor, and calls nothing of the
 * journal but journal_durable. A cut that comes meanwhile may have taken back what it is told, and is not told itself. Set before the channel's
 * first append. */
typedef void (*journal_watch_fn)(void *ctx, uint16_t channel, uint64_t durable);
void journal_watch(struct journal *j, uint16_t channel, journal_watch_fn watch, void *ctx);

/* See log_ops.append. Thread-safe; entries of one channel come from one thread, without gaps. Notes e's payload_crc. */
weir_status journal_append(struct journal *j, uint16_t channel, struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
/* See log_ops.truncate_above (cut.next - 1) and restart. From the thread that appends; without restart, cut.next is last + 1 at most. The durable index
 * goes back with it at once, and no further back than cut.next - 1; of a restart to 0, until it is durable itself. */
weir_status journal_cut(struct journal *j, uint16_t channel, struct journal_cut cut, weir_error *err) WEIR_MUST_CHECK;
uint64_t journal_durable(const struct journal *j, uint16_t channel); /* last durable index */
/* Behind everything that is appended and cut now; and whether all in front of a position is durable. */
uint64_t journal_position(struct journal *j);
bool journal_is_durable(struct journal *j, uint64_t position);
/* What is appended from here on goes to a small file of its own, so that it does not keep what
 * is in front of it. Waits for an fsync. */
weir_status journal_turn(struct journal *j, weir_error *err) WEIR_MUST_CHECK;
uint64_t journal_durable_position(struct journal *j); /* all in front of it is durable */
void journal_sync(struct journal *j);                 /* asks for an fsync of all that is appended and cut, and returns at once */
weir_status journal_wait(struct journal *j,
                         weir_error *err); /* asks, and waits until it is durable (and told to watchers), or failed */
/* The channel's entries < index are not needed any more. (From a restart on, its own index
 * counts instead.) */
void journal_truncate_below(struct journal *j, uint16_t channel, uint64_t index);

struct journal_stats {
	uint64_t bytes;          /* of entries that are kept: what a flush of all channels would allow to delete */
	uint64_t segments;       /* files */
	uint64_t appends, syncs; /* since it was opened */
	uint64_t appended_bytes;
	uint64_t full; /* appends refused by a full disk */
	uint64_t sync_ns_last, sync_ns_max;
};
void journal_get_stats(struct journal *j, struct journal_stats *out);
/* Whether entries of the channel keep a segment that is not written to any more: a flush of the
 * channel would let it go. */
bool journal_is_kept_by(struct journal *j, uint16_t channel);

#endif
