/* Prefetching: the same batches as direct reads, bounded, and safe to flush or stop at any time. */
#include "tests/unit/worker/data/fixture.h"

#include <stdlib.h>

#include "worker/data/prefetch.h"

struct data {
	char *text;
	struct job *job;
	struct dataset *dataset;
};

static struct data data_open(void **state, uint32_t rows)
{
	struct data d;
	size_t n;
	char path[256];
	weir_error err = {0};
	d.text = criteo_text(rows, 11, &n);
	write_bytes(*state, "prefetch.tsv", d.text, n, path);
	d.job = job_of(*state, DATA_CRITEO, path);
	CHECK_OK(dataset_open(&d.dataset, d.job, SPLIT_TRAIN, NULL, &err), err);
	return d;
}

static void data_close(struct data *d)
{
	dataset_close(d->dataset);
	job_of_free(d->job);
	free(d->text);
}

static char *direct_dump(struct dataset *d, const struct prefetched *item)
{
	struct unit_reader *u;
	struct batch b = {0};
	weir_error err = {0};
	CHECK_OK(unit_open(&u, d, item->unit.data_unit, item->unit.order_seed, &err), err);
	CHECK_OK(unit_read(u, item->index, &b, &err), err);
	char *dump = batch_dump(&b);
	batch_destroy(&b);
	unit_close(u);
	return dump;
}

static void batches_come_in_order_of_submission(void **state)
{
	struct data d = data_open(state, 150); /* 5 units; the last has 3 batches */
	struct prefetcher *p;
	weir_error err = {0};
	CHECK_OK(prefetcher_create(&p, d.dataset, 2, &err), err);
	static const uint32_t units[] = {3, 0, 4};
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(prefetcher_submit(p, &(struct prefetch_unit){.tag = 100 + i,
		                                                              .data_unit = units[i],
		                                                              .order_seed = i + 1,
		                                                              .first_batch = 1,
		                                                              .end_batch = UINT32_MAX}),
		                 WEIR_OK);
	for (uint64_t i = 0; i < 3; i++) {
		uint32_t batches = units[i] == 4 ? 3 : 4;
		for (uint32_t b = 1; b < batches; b++) {
			struct prefetched *item;
			assert_int_equal(prefetcher_next(p, &item, -1), WEIR_OK);
			assert_int_equal(item->status, WEIR_OK);
			assert_int_equal(item->unit.tag, 100 + i);
			assert_int_equal(item->index, b);
			assert_int_equal(item->batches, batches);
			assert_int_equal(item->last, b + 1 == batches);
			char *expected = direct_dump(d.dataset, item), *got = batch_dump(&item->batch);
			assert_string_equal(got, expected);
			free(expected);
			free(got);
			prefetcher_recycle(p, item);
		}
	}
	struct prefetched *item;
	assert_int_equal(prefetcher_next(p, &item, 0), WEIR_E_TIMEOUT);
	prefetcher_destroy(p);
	data_close(&d);
}

static void failed_and_empty_units_take_their_place(void **state)
{
	struct data d = data_open(state, 40);
	struct prefetcher *p;
	weir_error err = {0};
	CHECK_OK(prefetcher_create(&p, d.dataset, 1, &err), err);
	assert_int_equal(prefetcher_submit(p, &(struct prefetch_unit){.tag = 1, .data_unit = 99, .end_batch = UINT32_MAX}), WEIR_OK);
	assert_int_equal(
	    prefetcher_submit(p, &(struct prefetch_unit){.tag = 2, .data_unit = 0, .first_batch = 4, .end_batch = UINT32_MAX}),
	    WEIR_OK);
	assert_int_equal(prefetcher_submit(p, &(struct prefetch_unit){.tag = 3, .data_unit = 1, .end_batch = 1}), WEIR_OK);
	struct prefetched *item;
	assert_int_equal(prefetcher_next(p, &item, -1), WEIR_OK);
	assert_int_equal(item->status, WEIR_E_INVALID);
	assert_true(item->last);
	CHECK_CONTAINS(item->error.text, "99");
	prefetcher_recycle(p, item);
	assert_int_equal(prefetcher_next(p, &item, -1), WEIR_OK);
	assert_true(item->empty && item->last && item->status == WEIR_OK && item->unit.tag == 2);
	prefetcher_recycle(p, item);
	assert_int_equal(prefetcher_next(p, &item, -1), WEIR_OK);
	assert_true(item->last && !item->empty && item->unit.tag == 3);
	assert_int_equal(item->batch.rows, 8);
	prefetcher_recycle(p, item);
	prefetcher_destroy(p);
	data_close(&d);
}

static void flush_forgets_and_stop_never_waits(void **state)
{
	struct data d = data_open(state, 400);
	weir_error err = {0};
	for (uint32_t round = 0; round < 50; round++) {
		struct prefetcher *p;
		CHECK_OK(prefetcher_create(&p, d.dataset, 1 + round % 3, &err), err);
		for (uint32_t u = 0; u < 12; u++)
			assert_int_equal(prefetcher_submit(p, &(struct prefetch_unit){.tag = u, .data_unit = u, .end_batch = UINT32_MAX}),
			                 WEIR_OK);
		struct prefetched *item = NULL;
		if (round % 2)
			assert_int_equal(prefetcher_next(p, &item, -1), WEIR_OK);
		if (round % 5) {
			prefetcher_flush(p);
			assert_int_equal(prefetcher_submit(p, &(struct prefetch_unit){.tag = 777, .data_unit = 5, .end_batch = 2}), WEIR_OK);
			struct prefetched *fresh;
			assert_int_equal(prefetcher_next(p, &fresh, -1), WEIR_OK);
			assert_int_equal(fresh->unit.tag, 777);
			prefetcher_recycle(p, fresh);
		}
		if (item != NULL)
			prefetcher_recycle(p, item);
		prefetcher_destroy(p);
	}
	data_close(&d);
}

static void submissions_are_bounded(void **state)
{
	struct data d = data_open(state, 400);
	struct prefetcher *p;
	weir_error err = {0};
	weir_status status = WEIR_OK;
	CHECK_OK(prefetcher_create(&p, d.dataset, 1, &err), err);
	for (uint32_t i = 0; i < 2 * PREFETCH_UNITS_MAX && status == WEIR_OK; i++)
		status = prefetcher_submit(p, &(struct prefetch_unit){.data_unit = i % 12, .end_batch = UINT32_MAX});
	assert_int_equal(status, WEIR_E_BUSY);
	prefetcher_destroy(p);
	data_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(batches_come_in_order_of_submission),
	    cmocka_unit_test(failed_and_empty_units_take_their_place),
	    cmocka_unit_test(flush_forgets_and_stop_never_waits),
	    cmocka_unit_test(submissions_are_bounded),
	};
	return cmocka_run_group_tests_name("data_prefetch", tests, folder_setup, folder_teardown);
}
