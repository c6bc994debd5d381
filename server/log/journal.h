/* The journal of one server: the log entries of all its partitions and of the ledger. Each
 * partition and the ledger has its own channel. All channels share one sequence of segment files,
 * so that one fsync makes all of them durable (group commit). journal_format.h describes the bytes.
 *
 *   journal_open            locks the folder, reads the headers of the segments
 *   journal_replay          once: reads every entry, hands over those needed, cuts off a torn tail
 *   journal_append          from any thread: when it returns, the entry is in the page cache and
 *                           survives the death of the process, but not of the machine
 *   journal_cut             the same for a cut, which voids entries of a channel
 *   (a thread)              fsyncs at an interval and on request, then tells each channel its
 *                           durable index
 *   journal_truncate_below  as flushes cover entries: whole segments are deleted, oldest first
 *   journal_close           after the last append: makes everything durable, deletes the segments
 *                           that flushes cover, ends the journal cleanly
 *
 * After a crash. Entries that were not durable may be lost or torn, also out of order: the log ends
 * before the first bad entry. If a later segment, or a later entry that records how far the journal
 * was durable when it was written, shows that the bad entry had been durable, it is damage and not
 * a torn tail: E_CORRUPT names the file, the offset and the missing entries, and nothing is
 * changed. The bytes behind a torn tail are never read again. A log that ends before
 * options.durable_known has gone back in time: E_STALE, and nothing is changed either.
 *
 * Errors. A full disk shows when a segment begins, because its space is reserved then: E_NO_SPACE,
 * nothing was appended, later calls try again. Any other write failure, and every fsync failure, is
 * final: the journal accepts nothing more, no index becomes durable, and `failed` is called. */
#ifndef WEIR_JOURNAL_H
#define WEIR_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/disk.h"
#include "server/log/log.h"
#include "weir/status.h"

/* The ledger's channel; a partition's is its id, below WEIR_PARTITIONS_MAX. */
#define JOURNAL_LEDGER 0xffffu

struct journal;
struct sync_watch;

struct journal_options {
	struct disk *disk;     /* outlives the journal */
	const char *directory; /* created if missing */
	/* Id of the journal's owner. Files with another id are refused; files without an id are
	 * accepted. */
	uint8_t id[16];
	/* Names this process to others that find the journal locked, as in "server 1 of job x, pid
	 * 77". */
	const char *holder;
	uint64_t segment_bytes; /* maximum size; 0: WEIR_JOURNAL_SEGMENT_BYTES */
	/* Longest time between fsyncs while something is not durable. 0: fsync only on request. */
	uint32_t sync_interval_ms;
	struct sync_watch *watch; /* watches its syncs; outlives the journal. May be NULL */
	/* The journal was durable up to this position (mark.h); 0: unknown. */
	uint64_t durable_known;
	/* Called once, on any thread, when the journal has failed for good; afterwards append returns
	 * the same error. The server must stop. May be NULL. */
	void (*failed)(void *ctx, const weir_error *err);
	void *ctx;
};

/* E_BUSY: another process uses the journal; E_VERSION: a newer Weir wrote it; E_CORRUPT; E_IO.
 * After an error nothing has changed. */
weir_status journal_open(struct journal **out, const struct journal_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Makes everything durable and ends the journal cleanly, unless it failed before; returns whether
 * that succeeded. A log that flushes cover entirely leaves one file without entries, which keeps
 * the position. Needs: no thread appends any more. No watcher runs once it returns. NULL is
 * allowed. */
weir_status journal_close(struct journal *j, weir_error *err);

/* --- Recovery */

struct journal_channel {
	uint16_t channel;
	/* in: hands over entries from this index on. If one of them has been truncated away: E_CORRUPT,
	 * unless the channel was restarted. */
	uint64_t first;
	/* in: flushes show that entries up to this index were durable (0: none). If the journal holds
	 * only a part of them: E_CORRUPT. For a restarted channel this value may describe the log
	 * before the restart, so it is not checked; the caller must compare it with the entries
	 * received. */
	uint64_t flushed;
	/* out: last index in the journal. If all of the log is truncated: first - 1, or flushed if that
	 * is larger. append continues behind it. */
	uint64_t last;
	bool restarted; /* out */
	/* in: entries and cuts before this position are void and are not handed over; a restart
	 * precedes it. 0: all are handed over. */
	uint64_t from;
	/* in: the caller needs nothing of this channel: no entry or cut is handed over, and a missing
	 * one is no error. Restart the channel before appending to it. */
	bool is_void;
};
/* A cut of a channel's log: entries from `next` on are void, and the next entry has index `next`.
 * restart: the entries below `next` are void too. */
struct journal_cut {
	uint64_t next;
	bool restart;
};
/* Receives an entry in order: without gaps in a channel, in order of appending across channels. *e
 * is valid during the call. To keep it, retain e->message (a shared read buffer of up to
 * JOURNAL_READ_BYTES) and copy e and its rates, as log_disk_restore does. Any status but WEIR_OK
 * stops the replay with that status. */
typedef weir_status (*journal_entry_fn)(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err);
/* Receives a cut in its place among the entries: the entries handed over from cut->next on are
 * void. cut->next is at least `first`, because no entry below `first` was handed over. */
typedef weir_status (*journal_cut_fn)(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err);
struct journal_reader {
	journal_entry_fn entry;
	journal_cut_fn cut;
	void *ctx;
};
/* Reads the whole journal in one pass and makes the rest of it durable. Call it once, before
 * anything else, also for a new journal (which hands over nothing). `channels` must list every
 * channel that will be used; an entry of any other channel is E_CORRUPT. */
weir_status journal_replay(struct journal *j, struct journal_channel *channels, uint32_t count,
                           const struct journal_reader *reader, weir_error *err) WEIR_MUST_CHECK;

/* --- Running */

/* Called by the journal's thread after each fsync that moved the channel's durable index. It should
 * post to the executor; of the journal it may call only journal_durable. A cut made meanwhile may
 * have voided the reported entries; cuts are not reported. Set it before the channel's first
 * append. */
typedef void (*journal_watch_fn)(void *ctx, uint16_t channel, uint64_t durable);
void journal_watch(struct journal *j, uint16_t channel, journal_watch_fn watch, void *ctx);

/* Appends an entry; see log_ops.append. Thread-safe. Entries of one channel come from one thread,
 * without gaps. Stores payload_crc in e. */
weir_status journal_append(struct journal *j, uint16_t channel, struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
/* Cuts a channel; see log_ops.truncate_above (cut.next - 1) and log_ops.restart. Call it from the
 * thread that appends. Without restart, cut.next is at most last + 1. The durable index decreases
 * at once, to cut.next - 1 if it was higher. For a restart it is 0 until the restart is durable. */
weir_status journal_cut(struct journal *j, uint16_t channel, struct journal_cut cut, weir_error *err) WEIR_MUST_CHECK;
uint64_t journal_durable(const struct journal *j, uint16_t channel); /* last durable index */
/* journal_position returns the position behind everything appended and cut so far.
 * journal_is_durable returns whether everything before a position is durable. */
uint64_t journal_position(struct journal *j);
bool journal_is_durable(struct journal *j, uint64_t position);
/* Begins a new small file for later appends, so that they do not keep the earlier entries on disk.
 * Waits for an fsync. */
weir_status journal_turn(struct journal *j, weir_error *err) WEIR_MUST_CHECK;
uint64_t journal_durable_position(struct journal *j); /* everything before it is durable */
/* Requests an fsync of everything appended and cut; returns at once. */
void journal_sync(struct journal *j);
/* Requests an fsync and waits until everything is durable and watchers have been told, or the
 * journal has failed. */
weir_status journal_wait(struct journal *j, weir_error *err);
/* The channel's entries < index are no longer needed. (A restart replaces this index with its
 * own.) */
void journal_truncate_below(struct journal *j, uint16_t channel, uint64_t index);

struct journal_stats {
	uint64_t bytes;          /* bytes of entries kept; a flush of all channels would free them */
	uint64_t segments;       /* files */
	uint64_t appends, syncs; /* since it was opened */
	uint64_t appended_bytes;
	uint64_t full; /* appends refused by a full disk */
	uint64_t sync_ns_last, sync_ns_max;
};
void journal_get_stats(struct journal *j, struct journal_stats *out);
/* Whether entries of the channel keep a segment that is no longer written to. A flush of the
 * channel would release it. */
bool journal_is_kept_by(struct journal *j, uint16_t channel);

#endif
