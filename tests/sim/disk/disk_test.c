/* A node's disk: what survives the death of a process or a machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/disk/disk_sim.h"
#include "tests/sim/sim_test.h"
#include "tests/sim/world/heap.h"

enum { BLOCK = 4096, BLOCKS = 8 };

struct story {
	struct node *node;
	struct disk_sim *disk;
	enum node_death how;
	bool wrote;
	/* Number of blocks that a crash kept or lost, and of blocks nobody wrote. */
	uint32_t kept, lost, strange;
	int64_t sync_ns;
};

static struct disk_file *open_file(struct story *s, bool create)
{
	struct disk_file *f = NULL;
	struct disk *d = disk_sim_interface(s->disk);
	weir_error err = {0};
	assert_int_equal(d->ops->open(d, "dir/file", create, &f, &err), WEIR_OK);
	return f;
}

static void write_block(struct disk_file *f, uint32_t i, uint8_t value)
{
	uint8_t block[BLOCK];
	weir_error err = {0};
	memset(block, value, sizeof block);
	assert_int_equal(f->disk->ops->write_at(f, (uint64_t)i * BLOCK, block, sizeof block, &err), WEIR_OK);
}

/* Writes 1 to all blocks and syncs, then 2 + i without a sync. */
static void write_all(void *arg)
{
	struct story *s = arg;
	struct disk *d = disk_sim_interface(s->disk);
	weir_error err = {0};
	assert_int_equal(d->ops->make_dirs(d, "dir", &err), WEIR_OK);
	struct disk_file *f = open_file(s, true);
	for (uint32_t i = 0; i < BLOCKS; i++)
		write_block(f, i, 1);
	const int64_t begin = world_now();
	assert_int_equal(f->disk->ops->sync(f, &err), WEIR_OK);
	assert_int_equal(d->ops->sync_directory(d, "dir", &err), WEIR_OK);
	s->sync_ns = world_now() - begin;
	for (uint32_t i = 0; i < BLOCKS; i++)
		write_block(f, i, (uint8_t)(2 + i));
	s->wrote = true;
}

static void read_all(void *arg)
{
	struct story *s = arg;
	struct disk_file *f = open_file(s, false);
	weir_error err = {0};
	for (uint32_t i = 0; i < BLOCKS; i++) {
		uint8_t block[BLOCK];
		size_t got = 0;
		assert_int_equal(f->disk->ops->read_at(f, (uint64_t)i * BLOCK, block, sizeof block, &got, &err), WEIR_OK);
		assert_int_equal(got, BLOCK);
		for (uint32_t at = 0; at < BLOCK; at += 512) {
			s->kept += block[at] == 2 + i;
			s->lost += block[at] == 1;
			s->strange += block[at] != 1 && block[at] != 2 + i;
		}
	}
	f->disk->ops->close(f);
	s->wrote = false;
}

static void crash(void *arg)
{
	struct story *s = arg;
	heap_begin();
	s->node = node_create("machine");
	s->disk = disk_sim_create(s->node, &(struct disk_mood){.sync_ns = 10 * SIM_MS, .stray = s->strange ? 1 : 0});
	s->strange = 0;
	node_start(s->node, write_all, s);
	while (!s->wrote)
		thread_sleep(SIM_MS);
	node_kill(s->node, s->how);
	node_start(s->node, read_all, s);
	while (s->wrote)
		thread_sleep(SIM_MS);
	node_kill(s->node, DEATH_PROCESS);
	disk_sim_destroy(s->disk);
}

/* Sums over `seeds` crashes. stray: the crash may misdirect sectors. */
static struct story crashes(uint32_t seeds, enum node_death how, bool stray)
{
	struct story sum = {0};
	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct story s = {.how = how, .strange = stray};
		world_run(&(struct world_options){.seed = seed}, crash, &s);
		assert_in_range(s.sync_ns, 1, 11 * SIM_MS);
		sum.kept += s.kept;
		sum.lost += s.lost;
		sum.strange += s.strange;
	}
	return sum;
}

static void a_process_that_dies_loses_nothing(void **state)
{
	(void)state;
	const struct story s = crashes(3, DEATH_PROCESS, false);
	assert_int_equal(s.lost + s.strange, 0);
	assert_true(s.kept > 0);
}

static void a_machine_that_dies_loses_and_tears(void **state)
{
	(void)state;
	const struct story s = crashes(20, DEATH_MACHINE, false);
	assert_int_equal(s.strange, 0);
	assert_true(s.kept > 0 && s.lost > 0);
}

static void sectors_land_elsewhere(void **state)
{
	(void)state;
	const struct story s = crashes(20, DEATH_MACHINE, true);
	assert_true(s.strange > 0 && s.kept > 0 && s.lost > 0);
}

static void fill(void *arg)
{
	struct story *s = arg;
	uint8_t byte = 1;
	weir_error err = {0};
	s->node = node_create("machine");
	s->disk = disk_sim_create(s->node, &(struct disk_mood){.sync_ns = 1000});
	struct disk *d = disk_sim_interface(s->disk);
	struct disk_file *f = open_file(s, true);
	disk_sim_fill(s->disk, true);
	assert_int_equal(f->disk->ops->write_at(f, 0, &byte, 1, &err), WEIR_E_NO_SPACE);
	uint64_t left = 1;
	assert_int_equal(d->ops->free_space(d, "dir", &left, &err), WEIR_OK);
	assert_int_equal(left, 0);
	disk_sim_fill(s->disk, false);
	assert_int_equal(f->disk->ops->write_at(f, 0, &byte, 1, &err), WEIR_OK);
	f->disk->ops->close(f);
	disk_sim_destroy(s->disk);
}

static void it_fills_up(void **state)
{
	(void)state;
	struct story s = {0};
	world_run(&(struct world_options){.seed = 1}, fill, &s);
}

int test_disk(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_process_that_dies_loses_nothing),
	    cmocka_unit_test(a_machine_that_dies_loses_and_tears),
	    cmocka_unit_test(sectors_land_elsewhere),
	    cmocka_unit_test(it_fills_up),
	};
	return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
