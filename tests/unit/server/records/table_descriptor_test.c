/* The cost of tables with few or no rows: a server may have 1,024 tables in 1,024 partitions. */
#include "server/records/table_descriptor.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/store.h"
#include "tests/cmocka_check.h"

static weir_table_spec spec_of(uint32_t number, weir_table_kind kind, const weir_init_segment *segment)
{
	weir_table_spec spec = {
	    .kind = kind,
	    .width = kind == WEIR_EMBEDDING ? 8 : 0,
	    .elements = kind == WEIR_DENSE ? segment->elements : 0,
	    .optimizer = {.kind = WEIR_OPT_ADAM, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f},
	    .segments_count = 1,
	    .segments = segment,
	};
	snprintf(spec.name, sizeof spec.name, "table-%u", number);
	return spec;
}

static void equal_descriptions_are_one(void **state)
{
	(void)state;
	struct table_descriptors all;
	weir_init_segment segment = {.elements = 8, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = spec_of(1, WEIR_EMBEDDING, &segment);
	const struct table_descriptor *a, *b, *other, *own;
	weir_error err = {0};
	table_descriptors_init(&all);
	CHECK_OK(table_descriptor_get(&all, 3, &spec, &a, &err), err);
	CHECK_OK(table_descriptor_get(&all, 3, &spec, &b, &err), err);
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a->spec.segments, spec.segments);
	CHECK_OK(table_descriptor_get(NULL, 3, &spec, &own, &err), err);
	assert_ptr_not_equal(own, a);
	spec.optimizer.lr = 2e-3f; /* as in a later job with the same partition */
	CHECK_OK(table_descriptor_get(&all, 3, &spec, &other, &err), err);
	assert_ptr_not_equal(other, a);
	assert_true(a->spec.optimizer.lr == 1e-3f && other->spec.optimizer.lr == 2e-3f);
	table_descriptors_destroy(&all); /* holders keep their descriptor */
	assert_string_equal(a->spec.name, "table-1");
	table_descriptor_release(a);
	table_descriptor_release(b);
	table_descriptor_release(other);
	table_descriptor_release(own);
	table_descriptor_release(NULL);
}

static void impossible_descriptors_are_refused(void **state)
{
	(void)state;
	struct table_descriptors all;
	weir_init_segment segment = {.elements = 8, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = spec_of(1, WEIR_EMBEDDING, &segment);
	const struct table_descriptor *d;
	weir_error err = {0};
	table_descriptors_init(&all);
	spec.optimizer.beta1 = 2;
	assert_int_equal(table_descriptor_get(&all, 1, &spec, &d, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "table-1");
	table_descriptors_destroy(&all);
}

/* --- Many tables in many partitions */

enum { PARTITIONS = 64 };

static uint64_t mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	uint64_t lines = 0;
	assert_non_null(f);
	for (int c; (c = getc(f)) != EOF;)
		lines += c == '\n';
	fclose(f);
	return lines;
}

struct stores {
	struct table_descriptors all;
	struct store *of[PARTITIONS];
};

static void add_tables(struct stores *s, uint32_t tables, weir_table_kind kind, const weir_init_segment *segment)
{
	table_descriptors_init(&s->all);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		s->of[p] = store_create(&(struct store_options){.descriptors = &s->all});
		assert_non_null(s->of[p]);
		for (uint32_t id = 0; id < tables; id++) {
			const weir_table_spec spec = spec_of(id, kind, segment);
			struct store_table *t;
			weir_error err = {0};
			CHECK_OK(store_add_table(s->of[p], id, &spec, p, PARTITIONS, &t, &err), err);
		}
	}
}

static void remove_all(struct stores *s)
{
	for (uint32_t p = 0; p < PARTITIONS; p++)
		store_destroy(s->of[p]);
	table_descriptors_destroy(&s->all);
}

/* A table costs about a kilobyte and no mapping: Linux limits a process to 65,530 mappings. */
static void a_table_without_rows_costs_little(void **state)
{
	(void)state;
	static const weir_table_kind kinds[] = {WEIR_EMBEDDING, WEIR_DENSE};
	for (uint32_t i = 0; i < 2; i++) {
		struct stores s;
		const weir_init_segment segment = {.elements = i ? 1000 : 8, .kind = WEIR_INIT_ZERO};
		const uint64_t mapped = mappings();
		const size_t before = mallinfo2().uordblks;
		add_tables(&s, WEIR_TABLES_MAX, kinds[i], &segment);
		assert_in_range(mallinfo2().uordblks - before, 0, (uint64_t)PARTITIONS * WEIR_TABLES_MAX * 1500);
		assert_in_range(mappings(), 1, mapped + 1000);
		remove_all(&s);
	}
}

static void a_table_with_few_rows_takes_no_mapping_of_its_own(void **state)
{
	(void)state;
	enum { TABLES = 16 };
	struct stores s;
	const weir_init_segment segment = {.elements = 8, .kind = WEIR_INIT_ZERO};
	const uint64_t mapped = mappings();
	add_tables(&s, TABLES, WEIR_EMBEDDING, &segment);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		for (uint32_t id = 0; id < TABLES; id++) {
			const uint64_t key = 7;
			float *row;
			struct row_meta *meta;
			assert_int_equal(store_upsert(store_table(s.of[p], id), &key, 1, &row, &meta), WEIR_OK);
		}
	assert_in_range(mappings(), 1, mapped + PARTITIONS * TABLES / 4);
	remove_all(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_descriptions_are_one),
	    cmocka_unit_test(impossible_descriptors_are_refused),
	    cmocka_unit_test(a_table_without_rows_costs_little),
	    cmocka_unit_test(a_table_with_few_rows_takes_no_mapping_of_its_own),
	};
	return cmocka_run_group_tests_name("table_descriptor", tests, NULL, NULL);
}
