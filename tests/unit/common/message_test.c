/* Reference counts, cursors over spans cut at random places, checksums across spans. */
#include "common/base/message.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/crc32c.h"
#include "common/base/prng.h"
#include "tests/cmocka_check.h"

static void count_release(struct message *m)
{
	atomic_fetch_add((atomic_int *)m->owner, 1);
}

static void the_last_release_frees(void **state)
{
	(void)state;
	atomic_int released = 0;
	uint8_t byte = 7;
	struct span span = {&byte, 1};
	struct message *m = message_create(&span, 1, count_release, &released);
	assert_int_equal(m->bytes, 1);
	message_retain(m);
	message_release(m);
	assert_int_equal(released, 0);
	message_release(m);
	assert_int_equal(released, 1);
	message_release(NULL);
}

static void an_owned_message_is_writable_and_aligned(void **state)
{
	(void)state;
	uint8_t *data;
	struct message *m = message_alloc(1000, &data);
	assert_int_equal((uintptr_t)data % 64, 0);
	memset(data, 0x42, 1000);
	assert_int_equal(m->spans[0].data[999], 0x42);
	message_release(m);
	m = message_copy("abc", 3);
	assert_memory_equal(m->spans[0].data, "abc", 3);
	message_release(m);
	m = message_copy(NULL, 0);
	assert_int_equal(m->bytes, 0);
	message_release(m);
	assert_null(message_alloc(SIZE_MAX - 10, &data));
}

enum { BYTES = 4096 };

struct cut {
	uint8_t data[BYTES];
	struct message *m;
};

/* The same bytes in spans of random sizes, some empty. */
static void cut_make(struct cut *c, uint64_t seed)
{
	struct prng r;
	prng_seed(&r, seed);
	for (int i = 0; i < BYTES; i++)
		c->data[i] = (uint8_t)prng_u64(&r);
	struct span spans[BYTES + 200];
	uint32_t count = 0;
	for (size_t at = 0; at < BYTES;) {
		size_t size = (size_t)prng_below(&r, 60);
		if (size > BYTES - at)
			size = BYTES - at;
		spans[count++] = (struct span){c->data + at, size};
		at += size;
	}
	spans[count++] = (struct span){c->data, 0};
	c->m = message_create(spans, count, NULL, NULL);
	assert_non_null(c->m);
	assert_int_equal(c->m->bytes, BYTES);
}

static void reading_gives_the_bytes_wherever_they_are_cut(void **state)
{
	(void)state;
	static struct cut c;
	for (uint64_t seed = 0; seed < 20; seed++) {
		cut_make(&c, seed);
		struct prng r;
		prng_seed(&r, seed + 100);
		struct cursor at = cursor_at(c.m);
		uint8_t out[300];
		size_t done = 0;
		while (at.left > 0) {
			size_t n = (size_t)prng_below(&r, 300);
			if (n > at.left) {
				size_t left = at.left;
				assert_int_equal(cursor_read(&at, out, n), WEIR_E_CORRUPT);
				assert_int_equal(cursor_skip(&at, n), WEIR_E_CORRUPT);
				assert_int_equal(at.left, left);
				n = left;
			}
			assert_int_equal(cursor_crc32c(&at, n, 0), crc32c(0, c.data + done, n));
			if (prng_below(&r, 3) == 0) {
				assert_int_equal(cursor_skip(&at, n), WEIR_OK);
			} else {
				assert_int_equal(cursor_read(&at, out, n), WEIR_OK);
				assert_memory_equal(out, c.data + done, n);
			}
			done += n;
		}
		assert_int_equal(done, BYTES);
		message_release(c.m);
	}
}

static void runs_give_whole_elements(void **state)
{
	(void)state;
	static struct cut c;
	static const size_t sizes[] = {1, 2, 4, 8, 12, 64};
	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
		cut_make(&c, 50 + k);
		size_t elem = sizes[k], done = 0;
		struct cursor at = cursor_at(c.m);
		uint8_t straddle[64];
		const uint8_t *run;
		for (size_t n; (n = cursor_run(&at, elem, 5, straddle, &run)) > 0; done += n * elem) {
			assert_true(n <= 5);
			assert_memory_equal(run, c.data + done, n * elem);
		}
		assert_int_equal(done, BYTES / elem * elem);
		assert_int_equal(at.left, BYTES % elem);
		message_release(c.m);
	}
}

static void a_taken_part_ends_where_it_should(void **state)
{
	(void)state;
	static struct cut c;
	cut_make(&c, 9);
	struct cursor at = cursor_at(c.m);
	struct cursor part = cursor_take(&at, 1000);
	uint8_t out[1001];
	assert_int_equal(part.left, 1000);
	assert_int_equal(cursor_read(&part, out, 1001), WEIR_E_CORRUPT);
	assert_int_equal(cursor_read(&part, out, 1000), WEIR_OK);
	assert_memory_equal(out, c.data, 1000);
	assert_int_equal(part.left, 0);
	assert_int_equal(cursor_read(&at, out, 1), WEIR_OK);
	assert_int_equal(out[0], c.data[1000]);
	struct cursor all = cursor_take(&at, at.left);
	assert_int_equal(at.left, 0);
	assert_int_equal(all.left, BYTES - 1001);
	message_release(c.m);
}

/* Each holder writes a byte before its release; the thread that frees must see all bytes. */
enum { HOLDERS = 8 };

struct shared {
	struct message *m;
	uint8_t *data;
	int index;
};

static void sum_and_free(struct message *m)
{
	int sum = 0;
	for (int i = 0; i < HOLDERS; i++)
		sum += m->spans[0].data[i];
	atomic_store((atomic_int *)m->owner, sum);
}

static void *write_and_release(void *arg)
{
	struct shared *s = arg;
	s->data[s->index] = 1;
	message_release(s->m);
	return NULL;
}

static void releases_from_many_threads_are_seen_by_the_last(void **state)
{
	(void)state;
	for (int round = 0; round < 100; round++) {
		atomic_int sum = -1;
		uint8_t data[HOLDERS] = {0};
		struct span span = {data, HOLDERS};
		struct message *m = message_create(&span, 1, sum_and_free, &sum);
		struct shared shared[HOLDERS];
		pthread_t threads[HOLDERS];
		for (int i = 0; i < HOLDERS; i++) {
			shared[i] = (struct shared){message_retain(m), data, i};
			assert_int_equal(pthread_create(&threads[i], NULL, write_and_release, &shared[i]), 0);
		}
		message_release(m);
		for (int i = 0; i < HOLDERS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(sum, HOLDERS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_last_release_frees),
	    cmocka_unit_test(an_owned_message_is_writable_and_aligned),
	    cmocka_unit_test(reading_gives_the_bytes_wherever_they_are_cut),
	    cmocka_unit_test(runs_give_whole_elements),
	    cmocka_unit_test(a_taken_part_ends_where_it_should),
	    cmocka_unit_test(releases_from_many_threads_are_seen_by_the_last),
	};
	return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
