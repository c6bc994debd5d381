/* Every op of backend.h is in the CPU's table and in that of the CUDA library, by default this
 * build's emulated one; the argument names another. Opening a library needs no device. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/cpu.h"
#include "tests/cmocka_check.h"

#define SKIPPED 77

static const char *library_path;

struct named_op {
	const char *name;
	size_t at; /* offset of its pointer in the table */
};
static const struct named_op ops[] = {
#define NAMED_OP(op) {#op, offsetof(struct backend_ops, op)},
    {"destroy", offsetof(struct backend_ops, destroy)},
    {"sync", offsetof(struct backend_ops, sync)},
    {"info", offsetof(struct backend_ops, info)},
    BACKEND_OPS(NAMED_OP)
#undef NAMED_OP
};
enum { OPS = sizeof ops / sizeof *ops };

static void check_table(const struct backend_ops *table, const char *whose)
{
	assert_non_null(table->name);
	for (size_t i = 0; i < OPS; i++) {
		void *op;
		memcpy(&op, (const char *)table + ops[i].at, sizeof op);
		if (op == NULL)
			fail_msg("%s: op %s is not there", whose, ops[i].name);
	}
	print_message("%s: %d ops, none missing\n", whose, OPS);
}

/* A new op of the table must be in BACKEND_OPS too. */
static void the_list_of_ops_is_the_whole_table(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct backend_ops, destroy) + OPS * sizeof(void *), sizeof(struct backend_ops));
}

static void the_cpu_has_every_op(void **state)
{
	(void)state;
	for (unsigned v = 0; cpu_variant_at(v) != NULL; v++) {
		weir_error err = {0};
		struct backend *b = backend_cpu_create_with(cpu_variant_at(v), 1, &err);
		if (b == NULL)
			fail_msg("%s", err.text);
		check_table(b->ops, cpu_variant_at(v)->name);
		b->ops->destroy(b);
	}
}

static void the_library_has_every_op(void **state)
{
	(void)state;
	const struct backend_ops *(*table)(void);
	void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "skipped: %s\n", dlerror());
		exit(SKIPPED);
	}
	void *symbol = dlsym(library, "weir_backend_cuda_ops");
	assert_non_null(symbol);
	memcpy(&table, &symbol, sizeof table);
	check_table(table(), table()->name);
	dlclose(library);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_list_of_ops_is_the_whole_table),
	    cmocka_unit_test(the_cpu_has_every_op),
	    cmocka_unit_test(the_library_has_every_op),
	};
	library_path = argc > 1 ? argv[1] : CUDA_LIBRARY_EMULATED;
	return cmocka_run_group_tests_name("ops_table", tests, NULL, NULL);
}
