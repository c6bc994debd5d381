/* A vote store of a few partitions on a disk that can fail, and its promises. */
#ifndef WEIR_TESTS_VOTE_STORE_FIXTURE_H
#define WEIR_TESTS_VOTE_STORE_FIXTURE_H

#include "server/replica/vote_store.h"
#include "tests/cmocka_check.h"
#include "tests/unit/faulty_disk.h"

enum { PARTITIONS = 5, SLOTS = PARTITIONS + 1, FILE_BYTES = VOTES_HEADER_BYTES + SLOTS * VOTES_SLOT_BYTES };

#define FILE_NAME "folder/PROMISES"
#define BOOT_1    "the first boot"
#define BOOT_2    "the second boot"

struct vote_store_options options_on(struct faulty_disk *d, const char *machine_boot);
struct vote_store *open_well(const struct vote_store_options *o);
struct vote_store *open_new(struct faulty_disk *d);
uint16_t partition_of(uint32_t slot);

/* --- Submitting */

struct call {
	struct vote_write write;
	unsigned done;
};

void count_done(struct vote_write *w);
void submit(struct vote_store *p, struct call *c, uint16_t partition, uint64_t promised, bool whole);
/* The promise of round `round` in a slot. It grows, and `whole` changes. */
struct vote promise_of(uint32_t slot, uint64_t round);
/* Promises in all slots, with one write. */
weir_status promise_round(struct vote_store *p, uint64_t round, weir_error *err);
void promise_well(struct vote_store *p, uint64_t round);
void assert_found(const struct vote_store *p, uint64_t round, bool kept_whole);

#endif
