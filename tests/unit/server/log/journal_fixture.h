/* Entries whose content is a function of their channel, their index and how often their channel had been cut, so that whoever reads one back can
 * tell that it is right. */
#ifndef WEIR_TESTS_JOURNAL_FIXTURE_H
#define WEIR_TESTS_JOURNAL_FIXTURE_H

#include "server/log/journal.h"
#include "tests/cmocka_check.h"

#define FIXTURE_CHANNELS 3u
extern const uint16_t fixture_channels[FIXTURE_CHANNELS]; /* two partitions and the ledger */

#define FIXTURE_INDEX_MAX 1024u

/* Entry `index` of channel c, appended after so many cuts, with a body of up to body_bytes_max bytes; its message has one reference. */
struct log_entry fixture_entry(uint32_t c, uint64_t index, uint64_t cuts, size_t body_bytes_max, float rates[4]);
/* The body comes in several spans. */
weir_status fixture_append(struct journal *j, uint32_t c, uint64_t index, uint64_t cuts, size_t body_bytes_max, weir_error *err);

/* What a replay handed over, by channel. */
struct fixture_seen {
	size_t body_bytes_max;                                    /* in: as the entries were made with */
	bool all_committed;                                       /* in: entries are of version 1 */
	struct journal_channel channels[FIXTURE_CHANNELS];        /* in and out of journal_replay */
	uint64_t first[FIXTURE_CHANNELS], last[FIXTURE_CHANNELS]; /* what cuts have left; 0: nothing */
	uint8_t cuts[FIXTURE_CHANNELS][FIXTURE_INDEX_MAX];        /* by index: those before the entry was appended */
	uint64_t count;                                           /* of entries, void ones too */
};
/* Nothing truncated or flushed. */
struct fixture_seen fixture_seen_new(size_t body_bytes_max);
/* Replays; each entry must be right and follow the one before it (asserts). */
weir_status fixture_replay(struct journal *j, struct fixture_seen *seen, weir_error *err);

#endif
