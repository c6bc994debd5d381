/* Checkpoint manifests: reading back, the latest of a run, retention of manifests and of the files
 * that only old manifests name. */
#include "server/checkpoint/checkpoint_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/cmocka_check.h"

static char folder[64];
static struct blob_store *store;
static const uint8_t uuid[16] = {0xab, 0xcd, 0xef, 1, 2, 3};
static const uint8_t other[16] = {0x77};

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/weir-manifest-XXXXXX");
	return !mkdtemp(folder) || blob_open(&store, &(struct blob_options){.place = folder}, NULL) != WEIR_OK;
}

static int teardown(void **state)
{
	(void)state;
	char command[128];
	blob_close(store);
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

static struct checkpoint_object put_file(const uint8_t owner[16], const char *name, const char *suffix, const char *text)
{
	struct checkpoint_object o;
	char file[WEIR_BLOB_NAME_BYTES_MAX];
	weir_error err = {0};
	checkpoint_object_name(file, owner, name, suffix);
	CHECK_OK(checkpoint_object_write(store, file, text, strlen(text), &o, &err), err);
	return o;
}

/* A checkpoint of two partitions and a table. Its row files are `base` and one of its own. */
static void write_checkpoint(const uint8_t owner[16], int64_t when_ms, uint64_t generation, const struct checkpoint_object *base,
                             struct checkpoint_manifest *out)
{
	static const weir_init_segment init = {.elements = 8, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	weir_error err = {0};
	*out = (struct checkpoint_manifest){
	    .generation = generation, .created_ms = when_ms, .step = 42, .values = ROWS_BF16, .job = "demo"};
	memcpy(out->uuid, owner, sizeof out->uuid);
	checkpoint_name(out->name, owner, when_ms);
	out->tables_count = 1;
	out->tables = calloc(1, sizeof *out->tables);
	out->partitions_count = 2;
	out->partitions = calloc(2, sizeof *out->partitions);
	weir_init_segment *segments = malloc(sizeof *segments);
	assert_true(out->tables && out->partitions && segments);
	*segments = init;
	out->tables[0].id = 3;
	out->tables[0].spec = (weir_table_spec){.name = "embedding",
	                                        .kind = WEIR_EMBEDDING,
	                                        .width = 8,
	                                        .optimizer = {.kind = WEIR_OPT_ADAGRAD, .lr = 0.1f, .eps = 1e-8f},
	                                        .segments_count = 1,
	                                        .segments = segments,
	                                        .seed = UINT64_MAX};
	out->ledger = put_file(owner, out->name, "ledger", "ledger's state");
	for (uint32_t p = 0; p < 2; p++) {
		struct checkpoint_partition *part = &out->partitions[p];
		char suffix[32];
		part->index = 100 + p;
		snprintf(suffix, sizeof suffix, "p%04u.header", p);
		part->header = put_file(owner, out->name, suffix, "state");
		if (base)
			part->rows[part->rows_count++] = *base;
		snprintf(suffix, sizeof suffix, "p%04u.rows", p);
		part->rows[part->rows_count++] = put_file(owner, out->name, suffix, "rows");
		part->rows[part->rows_count - 1].index = part->index;
	}
	CHECK_OK(checkpoint_manifest_write(store, out, &err), err);
}

static bool is_there(const char *name)
{
	uint64_t bytes;
	return blob_size(store, name, &bytes, NULL) == WEIR_OK;
}

static bool manifest_is_there(const struct checkpoint_manifest *m)
{
	char name[WEIR_BLOB_NAME_BYTES_MAX];
	snprintf(name, sizeof name, "%s.json", m->name);
	return is_there(name);
}

static void a_manifest_is_read_back_as_it_was_written(void **state)
{
	(void)state;
	struct checkpoint_manifest m, back;
	weir_error err = {0};
	write_checkpoint(uuid, 1800000000123, 2, NULL, &m);
	assert_string_equal(m.name, "ck-20270115T080000.123Z-abcdef01");
	CHECK_OK(checkpoint_manifest_read(store, m.name, &back, &err), err);
	assert_string_equal(back.name, m.name);
	assert_string_equal(back.job, "demo");
	assert_memory_equal(back.uuid, uuid, sizeof uuid);
	assert_true(back.generation == 2 && back.created_ms == m.created_ms && back.step == 42);
	assert_true(back.values == ROWS_BF16 && back.slots == ROWS_FP32);
	assert_memory_equal(&back.ledger, &m.ledger, sizeof m.ledger);
	assert_int_equal(back.partitions_count, 2);
	for (uint32_t p = 0; p < 2; p++) {
		assert_int_equal(back.partitions[p].index, 100 + p);
		assert_int_equal(back.partitions[p].rows_count, 1);
		assert_memory_equal(&back.partitions[p].header, &m.partitions[p].header, sizeof m.ledger);
		assert_memory_equal(&back.partitions[p].rows[0], &m.partitions[p].rows[0], sizeof m.ledger);
	}
	assert_int_equal(back.tables_count, 1);
	assert_int_equal(back.tables[0].id, 3);
	assert_string_equal(back.tables[0].spec.name, "embedding");
	assert_true(back.tables[0].spec.seed == UINT64_MAX && back.tables[0].spec.optimizer.kind == WEIR_OPT_ADAGRAD);
	assert_true(back.tables[0].spec.segments[0].a == 0.01f);
	checkpoint_manifest_destroy(&back);
	checkpoint_manifest_destroy(&m);
}

static void the_latest_is_of_the_last_generation(void **state)
{
	(void)state;
	struct checkpoint_manifest old, new;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err = {0};
	write_checkpoint(uuid, 1800000009000, 2, NULL, &old);
	/* The clock of the machine may be wrong: the newer generation has the earlier time. */
	write_checkpoint(uuid, 1800000005000, 3, NULL, &new);
	CHECK_OK(checkpoint_latest(store, "demo", name, &err), err);
	assert_string_equal(name, new.name);
	/* demo2 shares the folder and has no checkpoint. */
	assert_int_equal(checkpoint_latest(store, "demo2", name, &err), WEIR_E_NOT_FOUND);
	checkpoint_manifest_destroy(&old);
	checkpoint_manifest_destroy(&new);
}

static void files_go_when_no_manifest_names_them(void **state)
{
	(void)state;
	struct checkpoint_manifest first, second, third, foreign;
	weir_error err = {0};
	write_checkpoint(uuid, 1800000100000, 4, NULL, &first);
	/* Refers to a file of the first. */
	write_checkpoint(uuid, 1800000200000, 4, &first.partitions[0].rows[0], &second);
	write_checkpoint(uuid, 1800000300000, 4, NULL, &third);
	write_checkpoint(other, 1800000050000, 1, NULL, &foreign);
	const struct checkpoint_object unfinished = put_file(uuid, "ck-20990101T000000.000Z-abcdef01", "p0000.rows", "half");
	CHECK_OK(checkpoint_retain(store, uuid, 2, NULL, third.name, &err), err);
	assert_true(!manifest_is_there(&first) && manifest_is_there(&second) && manifest_is_there(&third));
	assert_true(is_there(first.partitions[0].rows[0].name)); /* the second refers to it */
	assert_false(is_there(first.partitions[1].rows[0].name));
	assert_false(is_there(first.ledger.name));
	assert_true(manifest_is_there(&foreign) && is_there(foreign.ledger.name)); /* of another job */
	assert_true(is_there(unfinished.name));                                    /* unfinished */
	CHECK_OK(checkpoint_retain(store, uuid, 1, NULL, NULL, &err), err);
	assert_true(!manifest_is_there(&second) && manifest_is_there(&third));
	assert_false(is_there(first.partitions[0].rows[0].name));
	assert_false(is_there(unfinished.name));
	checkpoint_manifest_destroy(&first);
	checkpoint_manifest_destroy(&second);
	checkpoint_manifest_destroy(&third);
	checkpoint_manifest_destroy(&foreign);
}

/* Two runs may share a folder and a name. A server that is behind ignores later generations. */
static void the_last_of_a_run_is_its_own(void **state)
{
	(void)state;
	static const uint8_t run[16] = {0x77, 1}, third[16] = {0x77, 3};
	struct checkpoint_manifest old, new, foreign, found = {0};
	weir_error err = {0};
	write_checkpoint(run, 1800000001000, 2, NULL, &old);
	write_checkpoint(run, 1800000002000, 3, NULL, &new);
	write_checkpoint(third, 1800000003000, 9, NULL, &foreign);
	CHECK_OK(checkpoint_last_of_run(store, run, 3, &found, &err), err);
	assert_string_equal(found.name, new.name);
	checkpoint_manifest_destroy(&found);
	CHECK_OK(checkpoint_last_of_run(store, run, 2, &found, &err), err);
	assert_string_equal(found.name, old.name);
	assert_int_equal(found.step, 42);
	checkpoint_manifest_destroy(&found);
	assert_int_equal(checkpoint_last_of_run(store, run, 1, &found, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "holds no checkpoint of this run");
	/* The checkpoint that a generation started from stays, however old. */
	CHECK_OK(checkpoint_retain(store, run, 1, old.name, NULL, &err), err);
	assert_true(manifest_is_there(&old) && is_there(old.partitions[0].rows[0].name) && manifest_is_there(&new));
	CHECK_OK(checkpoint_retain(store, run, 1, NULL, NULL, &err), err);
	assert_true(!manifest_is_there(&old) && manifest_is_there(&new));
	checkpoint_manifest_destroy(&old);
	checkpoint_manifest_destroy(&new);
	checkpoint_manifest_destroy(&foreign);
}

/* Retention goes by generation first: the writer's clock may be behind. */
static void the_latest_stays_whatever_the_clock_said(void **state)
{
	(void)state;
	struct checkpoint_manifest before, restored;
	weir_error err = {0};
	write_checkpoint(uuid, 1800000900000, 6, NULL, &before);
	write_checkpoint(uuid, 1800000400000, 7, NULL, &restored);
	CHECK_OK(checkpoint_retain(store, uuid, 1, NULL, NULL, &err), err);
	assert_true(manifest_is_there(&restored) && is_there(restored.partitions[1].rows[0].name));
	assert_false(manifest_is_there(&before) || is_there(before.ledger.name));
	checkpoint_manifest_destroy(&before);
	checkpoint_manifest_destroy(&restored);
}

static void a_missing_checkpoint_is_reported_with_the_last_one(void **state)
{
	(void)state;
	struct checkpoint_manifest m;
	weir_error err = {0};
	assert_int_equal(checkpoint_manifest_read(store, "ck-2020", &m, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "the last of its");
	assert_int_equal(checkpoint_manifest_read(store, "../../etc/passwd", &m, &err), WEIR_E_NOT_FOUND);
	assert_int_equal(checkpoint_manifest_read(store, "ck-a b", &m, &err), WEIR_E_INVALID);
}

/* The error names the manifest. */
static void a_damaged_manifest_is_refused(void **state)
{
	(void)state;
	struct checkpoint_manifest m, back;
	char file[WEIR_BLOB_NAME_BYTES_MAX], *text = NULL;
	size_t bytes;
	weir_error err = {0};
	write_checkpoint(uuid, 1800001000000, 5, NULL, &m);
	snprintf(file, sizeof file, "%s.json", m.name);
	CHECK_OK(blob_get(store, file, 1 << 20, &text, &bytes, &err), err);
	/* Every 13th byte only, because each write is fsynced. */
	for (size_t at = 0; at < bytes; at += 13) {
		char kept = text[at];
		text[at] = kept == '7' ? '8' : '7'; /* changes a number to another number */
		CHECK_OK(blob_put(store, file, text, bytes, &err), err);
		err = (weir_error){0};
		weir_status status = checkpoint_manifest_read(store, m.name, &back, &err);
		bool blank = kept == ' ' || kept == '\n';
		if (status == WEIR_OK)
			fail_msg("a %s at %zu was not noticed", blank ? "blank" : "byte", at);
		CHECK_CONTAINS(err.text, m.name);
		text[at] = kept;
	}
	for (size_t cut = 0; cut + 1 < bytes; cut += 97) {
		CHECK_OK(blob_put(store, file, text, cut, &err), err);
		assert_int_equal(checkpoint_manifest_read(store, m.name, &back, &err), WEIR_E_CORRUPT);
	}
	CHECK_OK(blob_remove(store, file, &err), err);
	free(text);
	checkpoint_manifest_destroy(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_manifest_is_read_back_as_it_was_written),
	    cmocka_unit_test(the_latest_is_of_the_last_generation),
	    cmocka_unit_test(files_go_when_no_manifest_names_them),
	    cmocka_unit_test(the_last_of_a_run_is_its_own),
	    cmocka_unit_test(the_latest_stays_whatever_the_clock_said),
	    cmocka_unit_test(a_missing_checkpoint_is_reported_with_the_last_one),
	    cmocka_unit_test(a_damaged_manifest_is_refused),
	};
	return cmocka_run_group_tests_name("checkpoint_manifest", tests, setup, teardown);
}
