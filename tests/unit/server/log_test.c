/* The memory log behind log.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "log.h"

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
	assert_int_equal(l->ops->truncate_above(l, 60, NULL), WEIR_OK); /* nothing to do */
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(entries_are_held_until_released), cmocka_unit_test(a_log_is_cut)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
