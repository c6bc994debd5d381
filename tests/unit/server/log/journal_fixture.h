/* Entries whose content follows from channel, index and the number of earlier cuts of the channel.
 * So a test can check each entry that it reads. */
#ifndef WEIR_TESTS_JOURNAL_FIXTURE_H
#define WEIR_TESTS_JOURNAL_FIXTURE_H

#include "server/log/journal.h"
#include "tests/cmocka_check.h"

struct faulty_disk;

#define FIXTURE_CHANNELS 3u
extern const uint16_t fixture_channels[FIXTURE_CHANNELS]; /* two partitions and the ledger */

#define FIXTURE_INDEX_MAX 1024u

/* Entry `index` of channel c, appended after `cuts` cuts, with a body of up to body_bytes_max
 * bytes. Its message has one reference. */
struct log_entry fixture_entry(uint32_t c, uint64_t index, uint64_t cuts, size_t body_bytes_max, float rates[4]);
/* Appends the entry with a body in several spans. */
weir_status fixture_append(struct journal *j, uint32_t c, uint64_t index, uint64_t cuts, size_t body_bytes_max, weir_error *err);
/* Entries `from` to `to`. */
void fixture_append_range(struct journal *j, uint32_t c, uint64_t cuts, uint64_t from, uint64_t to, size_t body_bytes_max);
/* Voids entry `next` and later ones of channel c. */
void fixture_cut(struct journal *j, uint32_t c, uint64_t next);
/* Voids all entries of channel c, which continues with `first`. */
void fixture_restart(struct journal *j, uint32_t c, uint64_t first);
void fixture_close_journal(struct journal *j);
uint64_t fixture_file_bytes(struct faulty_disk *d, const char *path);

/* The result of a replay, by channel. */
struct fixture_seen {
	size_t body_bytes_max;                                    /* in: of the entries */
	bool all_committed;                                       /* in: the entries have version 1 */
	struct journal_channel channels[FIXTURE_CHANNELS];        /* in and out of journal_replay */
	uint64_t first[FIXTURE_CHANNELS], last[FIXTURE_CHANNELS]; /* entries that cuts left; 0: none */
	/* By index: the number of cuts before the entry. */
	uint8_t cuts[FIXTURE_CHANNELS][FIXTURE_INDEX_MAX];
	uint64_t count; /* entries, with void ones */
};
/* For a journal without truncations and flushes. */
struct fixture_seen fixture_seen_new(size_t body_bytes_max);
/* Replays, and asserts that each entry is right and follows the one before it. */
weir_status fixture_replay(struct journal *j, struct fixture_seen *seen, weir_error *err);

#endif
