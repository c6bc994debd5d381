/* The cost of registering tables on a job's servers.
 *
 *     table_memory LEDGER TABLES
 *
 * First registers dense tables of 2^40 elements under TABLES names in a job with one server that
 * cannot hold them. All must be refused. Then registers as many small tables under the same names,
 * half of them dense. All must be accepted. Prints the first refusal. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/integration/trainer_tool.h"
#include "weir/weir.h"

static weir_status add(weir_client *c, uint32_t number, weir_table_kind kind, uint64_t elements, weir_error *e)
{
	const weir_init_segment zero = {.elements = elements, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = kind,
	                        .width = kind == WEIR_EMBEDDING ? (uint32_t)elements : 0,
	                        .elements = kind == WEIR_DENSE ? elements : 0,
	                        .optimizer = {.kind = WEIR_OPT_ADAM, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f},
	                        .segments_count = 1,
	                        .segments = &zero};
	uint32_t id;
	snprintf(spec.name, sizeof spec.name, "table-%u", number);
	return weir_table_register(c, &spec, &id, e);
}

int main(int argc, char **argv)
{
	weir_client *c = NULL;
	weir_error e = {0};
	const uint32_t tables = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	if (!tables)
		return 2;
	const weir_options o = {
	    .ledger = argv[1], .name = "tables", .dataset_fingerprint = 7, .dataset_units = 1, .security.insecure = 1};
	if (weir_open(&c, &o, &e) != WEIR_OK)
		return trainer_fail("open", &e);
	for (uint32_t i = 0; i < tables; i++) {
		if (add(c, i, WEIR_DENSE, 1ull << 40, &e) != WEIR_E_LIMIT)
			return trainer_fail("2^40 elements are not refused", &e);
		if (i == 0)
			printf("%s\n", e.text);
	}
	for (uint32_t i = 0; i < tables; i++)
		if (add(c, i, i % 2 ? WEIR_DENSE : WEIR_EMBEDDING, i % 2 ? 1000 : 8, &e) != WEIR_OK)
			return trainer_fail("a small table", &e);
	return weir_close(c, &e) == WEIR_OK ? EXIT_SUCCESS : trainer_fail("close", &e);
}
