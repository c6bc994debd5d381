/* The log in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "server/log/log.h"

static uint32_t released;
static void on_release(struct message *m)
{
	(void)m;
	released++;
}

static void append(struct log *l, uint64_t index)
{
	static const uint8_t byte = 1;
	struct span span = {&byte, 1};
	struct message *m = message_create(&span, 1, on_release, NULL);
	float rates[2] = {(float)index, 2};
	struct log_entry e = {.index = index,
	                      .committed = index - index % 10,
	                      .rates_count = 2,
	                      .rates = rates,
	                      .record = {.batch = (uint32_t)index},
	                      .message = m};
	assert_int_equal(l->ops->append(l, &e, NULL), WEIR_OK);
	message_release(m);
	rates[0] = -1; /* the log has its own copy */
}

static void entries_are_held_until_released(void **state)
{
	(void)state;
	struct log *l = log_memory_create();
	released = 0;
	assert_int_equal(l->ops->last(l), 0);
	assert_int_equal(l->ops->first(l), 1);
	assert_null(l->ops->get(l, 1));
	for (uint64_t i = 1; i <= 100; i++)
		append(l, i);
	l->ops->release_below(l, 41);
	assert_int_equal(released, 40);
	assert_int_equal(l->ops->first(l), 41);
	assert_null(l->ops->get(l, 40));
	for (uint64_t i = 41; i <= 100; i++) {
		const struct log_entry *e = l->ops->get(l, i);
		assert_non_null(e);
		assert_int_equal(e->index, i);
		assert_int_equal(e->record.batch, i);
		assert_true(e->rates[0] == (float)i);
	}
	assert_int_equal(l->ops->durable(l), 100);
	l->ops->release_below(l, 1000);
	assert_int_equal(released, 100);
	append(l, 101);
	assert_int_equal(l->ops->get(l, 101)->index, 101);
	l->ops->destroy(l);
	assert_int_equal(released, 101);
}

static void a_log_is_cut(void **state)
{
	(void)state;
	struct log *l = log_memory_create();
	released = 0;
	for (uint64_t i = 1; i <= 55; i++)
		append(l, i);
	assert_int_equal(l->ops->committed(l), 50);
	l->ops->release_below(l, 11);
	assert_int_equal(l->ops->truncate_above(l, 60, NULL), WEIR_OK); /* nothing to cut */
	assert_int_equal(l->ops->truncate_above(l, 50, NULL), WEIR_OK);
	assert_int_equal(released, 15);
	assert_int_equal(l->ops->last(l), 50);
	assert_int_equal(l->ops->durable(l), 50);
	assert_int_equal(l->ops->committed(l), 50);
	assert_null(l->ops->get(l, 51));
	assert_non_null(l->ops->get(l, 50));
	append(l, 51);
	assert_int_equal(l->ops->get(l, 51)->index, 51);
	assert_int_equal(l->ops->restart(l, 7, NULL), WEIR_OK);
	assert_int_equal(released, 56);
	assert_int_equal(l->ops->first(l), 7);
	assert_int_equal(l->ops->last(l), 6);
	assert_int_equal(l->ops->committed(l), 6);
	for (uint64_t i = 7; i <= 30; i++)
		append(l, i);
	assert_null(l->ops->get(l, 6));
	assert_int_equal(l->ops->get(l, 7)->record.batch, 7);
	assert_int_equal(l->ops->committed(l), 30);
	l->ops->destroy(l);
	assert_int_equal(released, 80);
}

/* Appends an entry whose body is the last `bytes` of a larger message. */
static void append_part(struct log *l, uint64_t index, size_t bytes)
{
	static uint8_t content[WEIR_LOG_COPY_BYTES_MAX + 100];
	const size_t half = sizeof content / 2;
	for (size_t i = 0; i < sizeof content; i++)
		content[i] = (uint8_t)(i * 7 + index);
	struct message *m =
	    message_create((struct span[]){{content, half}, {content + half, sizeof content - half}}, 2, on_release, NULL);
	struct cursor body = cursor_at(m);
	assert_int_equal(cursor_skip(&body, sizeof content - bytes), WEIR_OK);
	struct log_entry e = {.index = index, .committed = index, .message = m, .body = body};
	assert_int_equal(l->ops->append(l, &e, NULL), WEIR_OK);
	message_release(m);
}

static void check_part(struct log *l, uint64_t index, size_t bytes)
{
	struct cursor body = l->ops->get(l, index)->body;
	assert_int_equal(body.left, bytes);
	for (size_t i = WEIR_LOG_COPY_BYTES_MAX + 100 - bytes; body.left; i++) {
		uint8_t byte;
		assert_int_equal(cursor_read(&body, &byte, 1), WEIR_OK);
		assert_int_equal(byte, (uint8_t)(i * 7 + index));
	}
}

static void an_entry_that_stays_lets_its_message_go(void **state)
{
	static const size_t bytes[] = {0, 1, WEIR_LOG_COPY_BYTES_MAX, WEIR_LOG_COPY_BYTES_MAX + 1};
	(void)state;
	struct log *l = log_memory_create();
	released = 0;
	for (uint64_t i = 0; i < 4; i++) {
		append_part(l, i + 1, bytes[i]);
		for (int again = 0; again < 2; again++) {
			l->ops->compact(l, i + 1);
			assert_int_equal(released, i < 3 ? i + 1 : 3); /* the last body is large */
			check_part(l, i + 1, bytes[i]);
		}
	}
	l->ops->destroy(l);
	assert_int_equal(released, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(entries_are_held_until_released), cmocka_unit_test(a_log_is_cut),
	                                   cmocka_unit_test(an_entry_that_stays_lets_its_message_go)};
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
