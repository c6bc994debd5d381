/* Traces: off they record nothing, on each thread has its own ring; full rings, the end by time,
 * reading while threads write; dumps, and dumps of others. */
#include "common/trace/trace_dump.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"

enum { SECOND_MS = 1000, THREADS = 4 };

static struct trace_what what(uint32_t batch)
{
	return (struct trace_what){
	    .kind = TRACE_APPLY, .op = 1, .partition = 2, .part = 3, .pass = 4, .unit = 5, .batch = batch, .attempt = 6};
}

static void record(struct trace *t, int64_t *now_ns, uint32_t batch)
{
	const struct trace_what w = what(batch);
	const int64_t begun_ns = trace_begin(t);
	*now_ns += 10;
	trace_end(t, begun_ns, &w);
}

static uint32_t read_threads(struct trace *t, struct trace_thread **threads)
{
	uint32_t count;
	weir_error err = {0};
	CHECK_OK(trace_read(t, threads, &count, &err), err);
	return count;
}

static void off_it_records_nothing(void **state)
{
	(void)state;
	int64_t now_ns = 1000;
	const struct manual_clock clock = manual_clock_ns(&now_ns);
	struct trace *t = trace_create(&clock.base);
	struct trace_thread *threads;
	record(NULL, &now_ns, 0);
	record(t, &now_ns, 0);
	assert_int_equal(read_threads(t, &threads), 0);
	trace_threads_destroy(threads, 0);
	trace_destroy(t);
}

static void a_span_has_what_its_point_said(void **state)
{
	(void)state;
	int64_t now_ns = 1000;
	const struct manual_clock clock = manual_clock_ns(&now_ns);
	struct trace *t = trace_create(&clock.base);
	struct trace_thread *threads;
	trace_start(t, SECOND_MS);
	record(t, &now_ns, 7);
	trace_stop(t);
	record(t, &now_ns, 8);
	assert_int_equal(read_threads(t, &threads), 1);
	assert_int_equal(threads[0].count, 1);
	const struct trace_span *s = &threads[0].spans[0];
	assert_int_equal(s->begun_ns, 1000);
	assert_int_equal(s->duration_ns, 10);
	const struct trace_what w = what(7);
	assert_memory_equal(&s->what, &w, sizeof w);
	trace_threads_destroy(threads, 1);
	trace_destroy(t);
}

static void it_ends_by_itself(void **state)
{
	(void)state;
	int64_t now_ns = 1000;
	const struct manual_clock clock = manual_clock_ns(&now_ns);
	struct trace *t = trace_create(&clock.base);
	struct trace_thread *threads;
	trace_start(t, SECOND_MS);
	record(t, &now_ns, 1);
	assert_false(trace_has_ended(t));
	now_ns += SECOND_MS * 1000000ll;
	assert_true(trace_is_on(t)); /* nobody has looked */
	record(t, &now_ns, 2);
	assert_false(trace_is_on(t));
	assert_true(trace_has_ended(t));
	assert_int_equal(read_threads(t, &threads), 1);
	assert_int_equal(threads[0].count, 1);
	trace_threads_destroy(threads, 1);
	trace_destroy(t);
}

static void a_new_trace_forgets_the_old_one(void **state)
{
	(void)state;
	int64_t now_ns = 1000;
	const struct manual_clock clock = manual_clock_ns(&now_ns);
	struct trace *t = trace_create(&clock.base);
	struct trace_thread *threads;
	trace_start(t, SECOND_MS);
	record(t, &now_ns, 1);
	record(t, &now_ns, 2);
	trace_start(t, SECOND_MS);
	record(t, &now_ns, 3);
	trace_stop(t);
	assert_int_equal(read_threads(t, &threads), 1);
	assert_int_equal(threads[0].count, 1);
	assert_int_equal(threads[0].spans[0].what.batch, 3);
	assert_int_equal(threads[0].lost, 0);
	trace_threads_destroy(threads, 1);
	trace_destroy(t);
}

static void a_full_ring_keeps_the_newest(void **state)
{
	(void)state;
	int64_t now_ns = 1000;
	const struct manual_clock clock = manual_clock_ns(&now_ns);
	struct trace *t = trace_create(&clock.base);
	struct trace_thread *threads;
	const uint32_t more = 100;
	trace_start(t, SECOND_MS);
	for (uint32_t i = 0; i < WEIR_TRACE_SPANS_MAX + more; i++)
		record(t, &now_ns, i);
	trace_stop(t);
	assert_int_equal(read_threads(t, &threads), 1);
	/* One slot less than there are: a writer could be at it. */
	assert_int_equal(threads[0].count, WEIR_TRACE_SPANS_MAX - 1);
	assert_int_equal(threads[0].lost, more + 1);
	for (uint64_t i = 0; i < threads[0].count; i++)
		assert_int_equal(threads[0].spans[i].what.batch, more + 1 + i);
	trace_threads_destroy(threads, 1);
	trace_destroy(t);
}

/* --- Many threads */

struct writer {
	struct trace *t;
	uint32_t number;
	const atomic_bool *stop;
};

/* A span's fields all say its batch, so that a reader would notice a torn one. */
static void *write_spans(void *arg)
{
	const struct writer *w = arg;
	for (uint32_t i = 0; !atomic_load_explicit(w->stop, memory_order_relaxed); i++) {
		const struct trace_what x = {.kind = TRACE_APPLY,
		                             .op = (uint16_t)i,
		                             .partition = (uint16_t)i,
		                             .part = (uint16_t)i,
		                             .pass = w->number,
		                             .unit = i,
		                             .batch = i,
		                             .attempt = i};
		trace_end(w->t, trace_begin(w->t), &x);
	}
	return NULL;
}

static void check_spans(const struct trace_thread *x)
{
	for (uint64_t i = 0; i < x->count; i++) {
		const struct trace_what *w = &x->spans[i].what;
		assert_int_equal(w->kind, TRACE_APPLY);
		assert_int_equal(w->unit, w->batch);
		assert_int_equal(w->attempt, w->batch);
		assert_int_equal(w->op, (uint16_t)w->batch);
		assert_int_equal(w->part, w->op);
		assert_int_equal(w->partition, w->op);
		assert_int_equal(w->pass, x->spans[0].what.pass);
		assert_true(i == 0 || w->batch > x->spans[i - 1].what.batch);
	}
}

static void reading_beside_writers_gives_whole_spans(void **state)
{
	(void)state;
	struct trace *t = trace_create(clock_system());
	atomic_bool stop = false;
	pthread_t threads[THREADS];
	struct writer writers[THREADS];
	struct trace_thread *read = NULL;
	uint32_t count = 0;
	for (uint32_t i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){t, i, &stop};
		assert_int_equal(pthread_create(&threads[i], NULL, write_spans, &writers[i]), 0);
	}
	for (uint32_t round = 0; round < 3; round++) {
		trace_start(t, 60 * SECOND_MS);
		uint64_t full = 0;
		while (count < THREADS || !full) { /* until each has its ring, and one has gone round */
			trace_threads_destroy(read, count);
			count = read_threads(t, &read);
			full = 0;
			for (uint32_t i = 0; i < count; i++) {
				check_spans(&read[i]);
				full += read[i].lost;
			}
		}
		trace_threads_destroy(read, count);
		read = NULL;
		count = 0;
	}
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	trace_destroy(t);
}

static void *write_one(void *arg)
{
	struct trace *t = arg;
	const struct trace_what w = what(0);
	trace_end(t, trace_begin(t), &w);
	return NULL;
}

static void threads_beyond_the_most_are_counted(void **state)
{
	(void)state;
	struct trace *t = trace_create(clock_system());
	trace_start(t, 60 * SECOND_MS);
	for (uint32_t i = 0; i < WEIR_TRACE_THREADS_MAX + 2; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, write_one, t), 0);
		pthread_join(thread, NULL);
	}
	trace_stop(t);
	struct trace_process p;
	uint8_t *dump;
	size_t bytes;
	weir_error err = {0};
	CHECK_OK(trace_dump(t, &(struct trace_process){.name = "it"}, &dump, &bytes, &err), err);
	CHECK_OK(trace_dump_read(dump, bytes, &p, &err), err);
	assert_int_equal(p.threads_count, WEIR_TRACE_THREADS_MAX);
	assert_int_equal(p.lost, 2);
	trace_process_destroy(&p);
	free(dump);
	trace_destroy(t);
}

/* --- Dumps */

static uint8_t *dump_of_two_spans(size_t *bytes)
{
	int64_t now_ns = 1000;
	const struct manual_clock clock = manual_clock_ns(&now_ns);
	struct trace *t = trace_create(&clock.base);
	const struct trace_process who = {.offset_ns = -5, .error_ns = 6, .machine = {1, 2}, .pid = 7, .name = "worker-1"};
	uint8_t *dump;
	weir_error err = {0};
	trace_start(t, SECOND_MS);
	record(t, &now_ns, 1);
	record(t, &now_ns, 2);
	trace_stop(t);
	CHECK_OK(trace_dump(t, &who, &dump, bytes, &err), err);
	trace_destroy(t);
	return dump;
}

static void a_dump_comes_back_as_it_was(void **state)
{
	(void)state;
	size_t bytes;
	uint8_t *dump = dump_of_two_spans(&bytes);
	struct trace_process p;
	weir_error err = {0};
	CHECK_OK(trace_dump_read(dump, bytes, &p, &err), err);
	assert_int_equal(p.began_ns, 1000);
	assert_int_equal(p.ended_ns, 1020);
	assert_int_equal(p.offset_ns, -5);
	assert_int_equal(p.error_ns, 6);
	assert_int_equal(p.machine[1], 2);
	assert_int_equal(p.pid, 7);
	assert_string_equal(p.name, "worker-1");
	assert_int_equal(p.threads_count, 1);
	assert_int_equal(p.threads[0].count, 2);
	const struct trace_what w = what(2);
	assert_memory_equal(&p.threads[0].spans[1].what, &w, sizeof w);
	assert_int_equal(p.threads[0].spans[1].begun_ns, 1010);
	trace_process_destroy(&p);
	free(dump);
}

/* Every cut, and every changed byte of the header and of counts, is refused or read without
 * harm. */
static void bytes_of_others_are_refused(void **state)
{
	(void)state;
	size_t bytes;
	uint8_t *dump = dump_of_two_spans(&bytes);
	struct trace_process p;
	weir_error err = {0};
	size_t refused = 0;
	for (size_t n = 0; n < bytes; n++) {
		assert_int_not_equal(trace_dump_read(dump, n, &p, &err), WEIR_OK);
		trace_process_destroy(&p);
	}
	for (size_t i = 0; i < bytes; i++) {
		dump[i] ^= 0xff;
		refused += trace_dump_read(dump, bytes, &p, &err) != WEIR_OK;
		trace_process_destroy(&p);
		dump[i] ^= 0xff;
	}
	assert_true(refused > 0 && refused < bytes); /* what a number says cannot be checked */
	dump[4]++;
	assert_int_equal(trace_dump_read(dump, bytes, &p, &err), WEIR_E_VERSION);
	trace_process_destroy(&p);
	free(dump);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(off_it_records_nothing),
	    cmocka_unit_test(a_span_has_what_its_point_said),
	    cmocka_unit_test(it_ends_by_itself),
	    cmocka_unit_test(a_new_trace_forgets_the_old_one),
	    cmocka_unit_test(a_full_ring_keeps_the_newest),
	    cmocka_unit_test(reading_beside_writers_gives_whole_spans),
	    cmocka_unit_test(threads_beyond_the_most_are_counted),
	    cmocka_unit_test(a_dump_comes_back_as_it_was),
	    cmocka_unit_test(bytes_of_others_are_refused),
	};
	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
