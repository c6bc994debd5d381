/* A partition's header: golden bytes, a round trip, and bytes that are refused. Epochs tell which
 * acknowledged entries a log holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_state.h"
#include "server/records/epochs.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/partition/partition_fixture.h"

static const struct fixture_options adagrad = {.optimizer = WEIR_OPT_ADAGRAD};

static void push(struct fixture *f, uint16_t table, uint32_t unit, uint32_t batch, uint32_t part, uint64_t step)
{
	struct one_row x;
	struct rows rows = one_row(&x, table, 10 + unit, 1);
	struct record r = push_record(unit, 1, batch, part, step);
	assert_int_equal(fixture_push(f, &r, &rows, 1), WEIR_OK);
}

/* Opens a partition with open and closed units, a closed step, parts that wait for the next step,
 * and a dropped batch. */
static void open_example(struct fixture *f)
{
	fixture_open(f, &adagrad);
	const uint32_t ids[2][3] = {{1, 3, 0}, {1, 3, 1}};
	push(f, ASYNC_ROWS, 1, 0, 0, 0);
	push(f, ASYNC_ROWS, 5, 17, 63, 0);
	push(f, SYNC_ROWS, 3, 0, 0, 1);
	push(f, SYNC_ROWS, 3, 1, 1, 1);
	assert_int_equal(fixture_close_step(f, 1, ids, 1, 1), WEIR_OK);
	push(f, SYNC_ROWS, 4, 2, 0, 2);
	assert_int_equal(fixture_seal(f, 1, 9, 2), WEIR_OK);
	assert_int_equal(fixture_retire(f, 1, 2), WEIR_OK);
	assert_int_equal(fixture_retire_one(f, 1, 5), WEIR_OK);
}

static struct message *golden(void)
{
	uint8_t *data;
	unsigned byte;
	size_t n = 0;
	struct message *m = message_alloc(4096, &data);
	FILE *in = fopen(GOLDEN_DIR "/partition_state.hex", "r");
	assert_non_null(in);
	while (n < 4096 && fscanf(in, "%2x", &byte) == 1)
		data[n++] = (uint8_t)byte;
	fclose(in);
	struct message *out = message_copy(data, n);
	message_release(m);
	return out;
}

static void print_bytes(const struct message *m)
{
	for (size_t i = 0; i < m->bytes; i++)
		fprintf(stderr, "%02x%s", m->spans[0].data[i], i % 32 == 31 ? "\n" : "");
	fprintf(stderr, "\n");
}

static void a_header_is_these_bytes(void **state)
{
	(void)state;
	struct fixture f;
	open_example(&f);
	struct message *m = partition_state_export(f.p), *g = golden();
	if (m->bytes != g->bytes || memcmp(m->spans[0].data, g->spans[0].data, m->bytes) != 0)
		print_bytes(m);
	assert_int_equal(m->bytes, g->bytes);
	assert_memory_equal(m->spans[0].data, g->spans[0].data, m->bytes);
	message_release(m);
	message_release(g);
	fixture_close(&f);
}

static void a_header_round_trips(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	struct message *g = golden();
	fixture_open(&f, &adagrad);
	if (partition_state_import(f.p, g->spans[0].data, g->bytes, &err))
		fail_msg("%s", err.text);
	assert_int_equal(partition_applied(f.p), 9);
	assert_int_equal(partition_state_needs(f.p), 6); /* the waiting part */
	assert_int_equal(partition_steps_closed(f.p), 1);
	assert_int_equal(partition_get_counters(f.p)->parts_applied, 3);
	assert_int_equal(partition_get_counters(f.p)->parts_dropped, 1);
	struct message *m = partition_state_export(f.p);
	assert_int_equal(m->bytes, g->bytes);
	assert_memory_equal(m->spans[0].data, g->spans[0].data, m->bytes);
	message_release(m);
	message_release(g);
	fixture_close(&f);
}

/* Replicas learn of a table at different times. It counts from its entry in the log on. */
static void a_table_that_is_only_known_leaves_no_trace(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	const weir_init_segment zero = {.elements = 4, .kind = WEIR_INIT_ZERO};
	const weir_table_spec spec = {.name = "other", .kind = WEIR_EMBEDDING, .width = 4, .segments = &zero, .segments_count = 1};
	open_example(&f);
	struct message *before = partition_state_export(f.p);
	CHECK_OK(partition_add_table(f.p, 30, &spec, &err), err);
	struct message *after = partition_state_export(f.p);
	assert_int_equal(after->bytes, before->bytes);
	assert_memory_equal(after->spans[0].data, before->spans[0].data, before->bytes);
	message_release(before);
	message_release(after);
	fixture_close(&f);
}

/* A restored checkpoint has no epochs. Neither has the header of a server that never began one. */
static void epochs_begin_behind_a_header_without_them(void **state)
{
	(void)state;
	struct log *log = log_memory_create();
	const struct partition_options o = {.partitions = 1, .log = log, .clock = clock_system()};
	struct fixture f = {.p = partition_create(&o, NULL)};
	struct message *g = golden();
	weir_error err = {0};
	fixture_add_tables(&f, &(struct fixture_options){.optimizer = WEIR_OPT_ADAGRAD});
	CHECK_OK(partition_state_import(f.p, g->spans[0].data, g->bytes, &err), err);
	CHECK_OK(log->ops->restart(log, partition_applied(f.p) + 1, &err), err);
	partition_recovered(f.p);
	assert_int_equal(partition_epoch(f.p), 0);
	partition_begin(f.p, 4);
	assert_int_equal(partition_applied(f.p), 10);
	assert_int_equal(partition_epoch(f.p), 4);
	push(&f, ASYNC_ROWS, 6, 0, 0, 0);
	assert_true(f.reply.applied == 11 && f.reply.epoch == 4);
	struct message *m = partition_state_export(f.p);
	fixture_close(&f);
	fixture_open(&f, &adagrad);
	CHECK_OK(partition_state_import(f.p, m->spans[0].data, m->bytes, &err), err);
	assert_int_equal(partition_epoch(f.p), 4);
	message_release(m);
	message_release(g);
	fixture_close(&f);
}

static void a_header_that_cannot_be_is_refused(void **state)
{
	(void)state;
	struct message *g = golden();
	uint8_t *bytes = malloc(g->bytes);
	uint32_t refused = 0;
	for (size_t at = 0; at < g->bytes; at++)
		for (uint32_t bit = 0; bit < 8; bit++) {
			struct fixture f;
			weir_error err = {0};
			memcpy(bytes, g->spans[0].data, g->bytes);
			bytes[at] ^= (uint8_t)(1u << bit);
			fixture_open(&f, &adagrad);
			if (partition_state_import(f.p, bytes, g->bytes, &err)) {
				refused++;
				assert_true(err.text[0] != 0);
			}
			fixture_close(&f);
		}
	assert_true(refused > g->bytes);
	free(bytes);
	message_release(g);
}

static void epochs_tell_what_a_restart_has_lost(void **state)
{
	(void)state;
	struct epochs e = {0};
	assert_true(epochs_hold(&e, 0, 0, 0));
	epochs_begin(&e, 1, 1);
	assert_true(epochs_hold(&e, 1, 200, 200));
	assert_false(epochs_hold(&e, 1, 201, 200));
	epochs_begin(&e, 2, 151); /* entries 151 to 200 are lost */
	assert_true(epochs_hold(&e, 1, 150, 180));
	assert_false(epochs_hold(&e, 1, 151, 180)); /* the log has another entry with this index */
	assert_true(epochs_hold(&e, 2, 180, 180));
	assert_false(epochs_hold(&e, 3, 1, 180)); /* a future epoch */
	epochs_begin(&e, 5, 181);                 /* epochs 3 and 4 left no entry */
	assert_true(epochs_hold(&e, 3, 180, 190));
	assert_false(epochs_hold(&e, 4, 181, 190));
	epochs_begin(&e, 5, 300); /* a repetition */
	assert_int_equal(e.count, 3);
	for (uint64_t epoch = 6; epoch < 6 + WEIR_EPOCHS_KEPT; epoch++)
		epochs_begin(&e, epoch, 200);
	assert_int_equal(e.count, WEIR_EPOCHS_KEPT);
	assert_false(epochs_hold(&e, 5, 10, 500)); /* the epoch is forgotten, so the answer is no */
	assert_true(epochs_hold(&e, 6, 199, 500));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_header_is_these_bytes),
	    cmocka_unit_test(a_header_round_trips),
	    cmocka_unit_test(a_table_that_is_only_known_leaves_no_trace),
	    cmocka_unit_test(epochs_begin_behind_a_header_without_them),
	    cmocka_unit_test(a_header_that_cannot_be_is_refused),
	    cmocka_unit_test(epochs_tell_what_a_restart_has_lost),
	};
	return cmocka_run_group_tests_name("partition_state", tests, NULL, NULL);
}
