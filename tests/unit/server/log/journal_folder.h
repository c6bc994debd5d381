/* A journal in a temporary folder of the test, with small segments. */
#ifndef WEIR_TESTS_JOURNAL_FOLDER_H
#define WEIR_TESTS_JOURNAL_FOLDER_H

#include "tests/folder.h"
#include "tests/unit/server/log/journal_fixture.h"

enum { BODY = 3000, SEGMENT = 16 << 10 };

#define IN_JOURNAL_FOLDER(test) cmocka_unit_test_setup_teardown(test, journal_folder_create, journal_folder_remove)

extern char journal_folder[FOLDER_BYTES];
int journal_folder_create(void **state);
int journal_folder_remove(void **state);

weir_status open_journal(struct disk *disk, struct journal **j, weir_error *err);
/* durable_known: the position up to which the journal was durable. */
weir_status open_journal_known(struct disk *disk, uint64_t durable_known, struct journal **j, weir_error *err);
/* Opens the journal and replays all entries. */
struct journal *reopen(struct disk *disk, struct fixture_seen *seen);
void append(struct journal *j, uint32_t c, uint64_t from, uint64_t to);
void append_behind_cuts(struct journal *j, uint32_t c, uint64_t cuts, uint64_t from, uint64_t to);
uint64_t segments_of(struct journal *j);

#endif
