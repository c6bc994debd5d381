/* Checkpoints of servers with most rows on disk only. Not run under ThreadSanitizer, which does not
 * see RocksDB's locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/ledger/ledger_state.h"
#include "state.pb-c.h"
#include "tests/await.h"
#include "tests/unit/worker/client/checkpoint_fixture.h"

/* Servers with memory for the dense table only: a checkpoint reads rows back from RocksDB while
 * they are evicted and admitted. */
static void rows_that_are_on_disk_only_are_in_checkpoints(void **state)
{
	(void)state;
	struct place place, data;
	struct cluster c;
	struct trainer t;
	struct taker taker = {.count = 0};
	char last[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* of the finished job: most rows are on disk only */
	pthread_t thread;
	weir_error err = {0};
	place_make(&place);
	place_make(&data);
	cluster_start(&c, &(struct cluster_options){
	                      .executors = 2, .checkpoint = &place.options, .folder = data.folder, .memory_budget_bytes = 1 << 20});
	asker_open(&taker.asker, &c);
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_SYNC});
	assert_int_equal(pthread_create(&thread, NULL, take_again_and_again, &taker), 0);
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	atomic_store(&taker.stop, true);
	pthread_join(thread, NULL);
	AWAIT(cluster_audit(&c).resident_rows <= KEY_SPACE / 2, "%llu rows are in memory",
	      (unsigned long long)cluster_audit(&c).resident_rows);
	asker_take(&taker.asker, last);
	assert_sums(&t);
	assert_audit(&c);
	trainer_close(&t);
	asker_close(&taker.asker);
	cluster_stop(&c);
	for (uint32_t i = 0; i < taker.count; i++)
		restore_and_finish(&place, taker.names[i], 1 + i % 3, 2, (weir_mode){WEIR_SYNC});
	restore_and_finish(&place, last, 1, 2, (weir_mode){WEIR_SYNC});
	place_remove(&data);
	place_remove(&place);
}

/* Copies a server's folder as a kill leaves it; retries until no file changes meanwhile. RocksDB
 * removes files and the server probes its disk at any time. */
static void copy_of_one_moment(const char *from, const char *to)
{
	char command[1024];
	snprintf(command, sizeof command,
	         "look() { find '%s' -printf '%%P %%s %%T@\\n' 2>&1 | sort; }; tries=0\n"
	         "while [ $tries -lt 1000 ]; do\n"
	         "  before=$(look); rm -rf '%s'\n"
	         "  cp -r '%s' '%s' 2>/dev/null && [ \"$before\" = \"$(look)\" ] && exit 0\n"
	         "  tries=$((tries + 1))\n"
	         "done; exit 1",
	         from, to, from, to);
	assert_int_equal(system(command), 0);
}

/* A restored server dies before its first push. Its folder has everything that was restored. */
static void restored_rows_are_on_disk_when_the_server_serves(void **state)
{
	(void)state;
	struct place place, data, killed;
	struct cluster c;
	struct trainer t;
	struct asker a;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err = {0};
	place_make(&place);
	place_make(&data);
	place_make(&killed);
	cluster_start(&c, &(struct cluster_options){.checkpoint = &place.options});
	trainer_open(&t, &c, "mortal", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, 15, &err), &err); /* in the middle of a unit */
	asker_open(&a, &c);
	asker_take(&a, name);
	asker_close(&a);
	trainer_abandon(&t);
	cluster_stop(&c);
	struct cluster_options restored = {.checkpoint = &place.options, .restore = name, .generation = 2, .folder = data.folder};
	cluster_start(&c, &restored);
	copy_of_one_moment(data.folder, killed.folder);
	cluster_stop(&c);
	restored.folder = killed.folder;
	restored.rows_at_start = KEY_SPACE / 8; /* the rest are admitted as the survivor reads them */
	cluster_start(&c, &restored);
	const uint64_t resident = cluster_audit(&c).resident_rows;
	assert_true(resident > 0 && resident < KEY_SPACE / 2);
	trainer_open(&t, &c, "survivor", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	assert_sums(&t);
	assert_audit(&c);
	trainer_close(&t);
	cluster_stop(&c);
	place_remove(&killed);
	place_remove(&data);
	place_remove(&place);
}

/* Replaces the checkpoint's ledger by one with a pass of `units` finished units. */
static void replace_ledger(const struct place *place, const char *name, uint32_t units)
{
	struct blob_store *store;
	struct checkpoint_manifest m;
	Weir__V1__LedgerState state = WEIR__V1__LEDGER_STATE__INIT;
	Weir__V1__LedgerGlobals globals = WEIR__V1__LEDGER_GLOBALS__INIT;
	Weir__V1__LedgerUnit *all = calloc(units, sizeof *all);
	char object[WEIR_BLOB_NAME_BYTES_MAX];
	weir_error err = {0};
	globals.has_dataset = true;
	globals.units_count = globals.committed = globals.low = units;
	state.globals = &globals;
	state.n_units = units;
	state.units = calloc(units, sizeof(Weir__V1__LedgerUnit *));
	assert_true(all && state.units);
	for (uint32_t i = 0; i < units; i++) {
		weir__v1__ledger_unit__init(&all[i]);
		all[i].unit = i;
		all[i].state = UNIT_COMMITTED;
		all[i].batches = all[i].watermark = 1;
		state.units[i] = &all[i];
	}
	const size_t bytes = weir__v1__ledger_state__get_packed_size(&state);
	uint8_t *packed = malloc(bytes);
	assert_non_null(packed);
	weir__v1__ledger_state__pack(&state, packed);
	assert_true(bytes > WEIR_MESSAGE_BYTES_MAX);
	assert_ok(checkpoint_options_open(&place->options, &store, &err), &err);
	assert_ok(checkpoint_manifest_read(store, name, &m, &err), &err);
	snprintf(object, sizeof object, "%s", m.ledger.name);
	assert_ok(checkpoint_object_write(store, object, packed, bytes, &m.ledger, &err), &err);
	assert_ok(checkpoint_manifest_write(store, &m, &err), &err);
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	free(packed);
	free(state.units);
	free(all);
}

/* A long pass's ledger exceeds a log entry. The restore works all the same. */
static void the_ledger_of_a_long_pass_is_restored(void **state)
{
	(void)state;
	enum { LONG_PASS = 1 << 19 };
	struct place place, data;
	struct cluster c;
	struct asker a;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	place_make(&place);
	place_make(&data);
	cluster_start(&c, &(struct cluster_options){.checkpoint = &place.options});
	asker_open(&a, &c);
	asker_take(&a, name);
	asker_close(&a);
	cluster_stop(&c);
	replace_ledger(&place, name, LONG_PASS);
	const struct cluster_options restored = {
	    .checkpoint = &place.options, .restore = name, .generation = 2, .folder = data.folder};
	for (uint32_t start = 0; start < 2; start++) { /* from the checkpoint, then from the folder */
		cluster_start(&c, &restored);
		assert_int_equal(cluster_audit(&c).committed, LONG_PASS);
		cluster_stop(&c);
	}
	place_remove(&data);
	place_remove(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rows_that_are_on_disk_only_are_in_checkpoints),
	                                   cmocka_unit_test(restored_rows_are_on_disk_when_the_server_serves),
	                                   cmocka_unit_test(the_ledger_of_a_long_pass_is_restored)};
	return cmocka_run_group_tests_name("checkpoint_cold", tests, NULL, NULL);
}
