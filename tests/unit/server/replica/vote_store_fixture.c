#include "tests/unit/server/replica/vote_store_fixture.h"

#include "server/log/journal.h"
#include "tests/executor_at_once.h"

struct vote_store_options options_on(struct faulty_disk *d, const char *machine_boot)
{
	struct vote_store_options o = {.disk = faulty_disk_interface(d),
	                               .path = FILE_NAME,
	                               .id = "server 1, test",
	                               .partitions = PARTITIONS,
	                               .log = VOTE_LOG_CACHED,
	                               .stepped = true};
	memcpy(o.machine_boot, machine_boot, strlen(machine_boot));
	return o;
}

struct vote_store *open_well(const struct vote_store_options *o)
{
	struct vote_store *p;
	weir_error err = {0};
	CHECK_OK(vote_store_open(&p, o, &err), err);
	return p;
}

struct vote_store *open_new(struct faulty_disk *d)
{
	const struct vote_store_options o = options_on(d, BOOT_1);
	return open_well(&o);
}

uint16_t partition_of(uint32_t slot)
{
	return slot == PARTITIONS ? JOURNAL_LEDGER : (uint16_t)slot;
}

void count_done(struct vote_write *w)
{
	((struct call *)w)->done++;
}

void submit(struct vote_store *p, struct call *c, uint16_t partition, uint64_t promised, bool whole)
{
	*c = (struct call){.write = {.partition = partition,
	                             .vote = {.promised = promised, .whole = whole},
	                             .run_on = EXECUTOR_AT_ONCE,
	                             .done = count_done}};
	vote_store_submit(p, &c->write);
}

struct vote promise_of(uint32_t slot, uint64_t round)
{
	return (struct vote){.promised = round * 100 + slot, .whole = (round + slot) % 3 != 0};
}

weir_status promise_round(struct vote_store *p, uint64_t round, weir_error *err)
{
	struct call calls[SLOTS];
	for (uint32_t i = 0; i < SLOTS; i++)
		submit(p, &calls[i], partition_of(i), promise_of(i, round).promised, promise_of(i, round).whole);
	assert_true(vote_store_write(p));
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_int_equal(calls[i].done, 1);
		assert_int_equal(calls[i].write.status, calls[0].write.status);
		assert_string_equal(calls[i].write.err.text, calls[0].write.err.text);
	}
	*err = calls[0].write.err;
	return calls[0].write.status;
}

void promise_well(struct vote_store *p, uint64_t round)
{
	weir_error err = {0};
	CHECK_OK(promise_round(p, round, &err), err);
}

void assert_found(const struct vote_store *p, uint64_t round, bool kept_whole)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct vote found = vote_store_found(p, partition_of(i)), expected = promise_of(i, round);
		assert_int_equal(found.promised, expected.promised);
		assert_int_equal(found.whole, expected.whole && kept_whole);
	}
}
