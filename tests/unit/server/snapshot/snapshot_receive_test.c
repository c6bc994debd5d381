/* The frames that the receiver of a snapshot refuses: flipped bits, wrong frames, frames for
 * another receiver, frames that come too late. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/unit/server/random_records.h"
#include "tests/unit/server/snapshot/snapshot_fixture.h"

static struct world *record(uint64_t seed, uint32_t steps_count)
{
	struct world *w = world_create(seed, 0, 0);
	steps(w, steps_count);
	record_snapshot(w);
	return w;
}

static void take(struct world *w, struct message *frame)
{
	snapshot_receiver_take(w->receiver, cursor_at(frame));
}

/* Gives n frames to a new learner in memory. It must not end before the last. Returns how it
 * ended. */
static weir_status feed(struct world *w, struct message *const *frames, uint32_t n)
{
	begin_receiver(w);
	for (uint32_t i = 0; i < n; i++) {
		assert_false(w->receive_ended);
		take(w, frames[i]);
	}
	const weir_status status = w->receive_ended ? w->receive_status : WEIR_E_STATE;
	end_receiver(w);
	return status;
}

static struct message *flipped(struct world *w, const struct message *m)
{
	uint8_t *bytes;
	struct message *out = message_alloc(m->bytes, &bytes);
	struct cursor c = cursor_at(m);
	assert_int_equal(cursor_read(&c, bytes, m->bytes), WEIR_OK);
	bytes[random_below(&w->random, (uint32_t)m->bytes)] ^= (uint8_t)(1u << random_below(&w->random, 8));
	return out;
}

static void a_flipped_bit_is_refused(void **state)
{
	(void)state;
	struct world *w = record(41, 150);
	for (uint32_t i = 0; i < w->recorded_count; i++)
		for (uint32_t k = 0; k < 8; k++) {
			struct message *good = w->recorded[i];
			char name[32];
			snprintf(name, sizeof name, "frame %u: ", i);
			w->recorded[i] = flipped(w, good);
			const weir_status status = feed(w, w->recorded, i + 1);
			assert_true(status == WEIR_E_CORRUPT || status == WEIR_E_VERSION);
			CHECK_CONTAINS(w->text, name);
			message_release(w->recorded[i]);
			w->recorded[i] = good;
		}
	assert_int_equal(feed(w, w->recorded, w->recorded_count), WEIR_OK);
	world_destroy(w);
}

/* Gives frame number `in_place` in the place of number i. */
static void refuse_frame(struct world *w, uint32_t i, uint32_t in_place)
{
	struct message *wrong[FRAMES_MAX];
	memcpy(wrong, w->recorded, sizeof wrong);
	wrong[i] = w->recorded[in_place];
	assert_int_equal(feed(w, wrong, i + 1), WEIR_E_CORRUPT);
	CHECK_CONTAINS(w->text, "it is number ");
}

static void frames_come_in_order(void **state)
{
	(void)state;
	struct world *w = record(42, 150);
	for (uint32_t i = 0; i < w->recorded_count; i++) {
		if (i + 1 < w->recorded_count) /* a frame is missing */
			refuse_frame(w, i, i + 1);
		if (i > 0) /* a frame comes twice */
			refuse_frame(w, i, i - 1);
	}
	world_destroy(w);
}

/* Gives the first frame to a learner with other options. */
static void refuse_first(struct world *w, const struct snapshot_receiver_options *o, weir_status status, const char *says)
{
	create_receiver(w, o);
	take(w, w->recorded[0]);
	assert_true(w->receive_ended);
	assert_int_equal(w->receive_status, status);
	CHECK_CONTAINS(w->text, says);
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
}

static void messages_for_others_are_refused(void **state)
{
	(void)state;
	struct world *w = record(43, 50);
	w->into = node_make_room(&w->b);
	struct snapshot_receiver_options o = receiver_options(w);
	o.uuid[3] ^= 1;
	refuse_first(w, &o, WEIR_E_GENERATION, "another job");
	o.uuid[3] ^= 1;
	o.generation++;
	refuse_first(w, &o, WEIR_E_GENERATION, "it is of generation 3, this server is in generation 4");
	o.generation--;
	o.partitions = 2;
	refuse_first(w, &o, WEIR_E_INVALID, "partition 0 of 1, expected 0 of 2");
	o.partitions = 1;
	w->unwanted = true;
	refuse_first(w, &o, WEIR_E_STALE, "of no use any more");
	w->unwanted = false;
	partition_destroy(w->into);
	world_destroy(w);
}

static void another_schema_is_refused(void **state)
{
	(void)state;
	struct world *w = record(44, 50);
	w->into = node_make_room(&w->b);
	struct fixture f = {.p = w->into};
	fixture_add_tables(&f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD});
	const struct snapshot_receiver_options o = receiver_options(w);
	create_receiver(w, &o);
	for (uint32_t i = 0; i < w->recorded_count && !w->receive_ended; i++)
		take(w, w->recorded[i]);
	assert_int_equal(w->receive_status, WEIR_E_EXISTS);
	CHECK_CONTAINS(w->text, "table 1 is registered as \"async_rows\"");
	assert_int_equal(partition_applied(w->into), 0);
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
	partition_destroy(w->into);
	world_destroy(w);
}

/* A complete but stale snapshot replaces nothing. */
static void a_snapshot_may_come_too_late(void **state)
{
	(void)state;
	struct world *w = record(45, 50);
	begin_receiver(w);
	for (uint32_t i = 0; i < w->recorded_count; i++) {
		w->unwanted = i == w->recorded_count - 1;
		take(w, w->recorded[i]);
	}
	assert_true(w->receive_ended);
	assert_int_equal(w->receive_status, WEIR_E_STALE);
	assert_int_equal(partition_applied(w->into), 0);
	end_receiver(w);
	world_destroy(w);
}

static void leave_after_end(void *arg, uint64_t next)
{
	struct world *w = arg;
	if (next < w->recorded_count)
		return;
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
}

/* A destroyed receiver calls no more, but the partition that it installed stays. */
static void a_receiver_may_be_destroyed_by_whom_it_calls(void **state)
{
	(void)state;
	struct world *w = record(46, 50);
	w->into = node_make_room(&w->b);
	struct snapshot_receiver_options o = receiver_options(w);
	o.received = leave_after_end;
	create_receiver(w, &o);
	for (uint32_t i = 0; i < w->recorded_count; i++)
		take(w, w->recorded[i]);
	assert_null(w->receiver);
	assert_false(w->receive_ended);
	node_adopt(&w->b, w->into);
	assert_equal_to_twin(w, w->b.p);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_flipped_bit_is_refused),        cmocka_unit_test(frames_come_in_order),
	    cmocka_unit_test(messages_for_others_are_refused), cmocka_unit_test(another_schema_is_refused),
	    cmocka_unit_test(a_snapshot_may_come_too_late),    cmocka_unit_test(a_receiver_may_be_destroyed_by_whom_it_calls),
	};
	return cmocka_run_group_tests_name("snapshot_receive", tests, NULL, NULL);
}
