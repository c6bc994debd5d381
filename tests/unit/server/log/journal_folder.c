#include "tests/unit/server/log/journal_folder.h"

#include <stdio.h>

char journal_folder[FOLDER_BYTES];

int journal_folder_create(void **state)
{
	(void)state;
	folder_create(journal_folder);
	return 0;
}

int journal_folder_remove(void **state)
{
	(void)state;
	return folder_delete(journal_folder);
}

weir_status open_journal_known(struct disk *disk, uint64_t durable_known, struct journal **j, weir_error *err)
{
	char directory[128];
	snprintf(directory, sizeof directory, "%s/journal", journal_folder);
	struct journal_options options = {.disk = disk,
	                                  .directory = directory,
	                                  .id = "test",
	                                  .holder = "the test",
	                                  .segment_bytes = SEGMENT,
	                                  .durable_known = durable_known};
	return journal_open(j, &options, err);
}

weir_status open_journal(struct disk *disk, struct journal **j, weir_error *err)
{
	return open_journal_known(disk, 0, j, err);
}

struct journal *reopen(struct disk *disk, struct fixture_seen *seen)
{
	struct journal *j;
	weir_error err = {0};
	*seen = fixture_seen_new(BODY);
	CHECK_OK(open_journal(disk, &j, &err), err);
	CHECK_OK(fixture_replay(j, seen, &err), err);
	return j;
}

void append(struct journal *j, uint32_t c, uint64_t from, uint64_t to)
{
	fixture_append_range(j, c, 0, from, to, BODY);
}

void append_behind_cuts(struct journal *j, uint32_t c, uint64_t cuts, uint64_t from, uint64_t to)
{
	fixture_append_range(j, c, cuts, from, to, BODY);
}

uint64_t segments_of(struct journal *j)
{
	struct journal_stats stats;
	journal_get_stats(j, &stats);
	return stats.segments;
}
