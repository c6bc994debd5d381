/* A trainer that pushes one row at a time to one partition, each as soon as the last is
 * acknowledged, and prints the slow ones:
 *
 *     push_gaps LEDGER PARTITION PARTITIONS
 *
 * Prints a line per push that was not acknowledged within 20 ms: the times when it was sent and
 * acknowledged, in milliseconds since 1970. Ends by a signal. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/key_partition.h"
#include "tests/integration/trainer_tool.h"
#include "weir/weir.h"

enum { UNITS = 1000, BATCHES = 4096, LONG_MS = 20 };

static weir_status push_one(weir_client *c, const weir_unit *u, uint32_t batch, uint32_t table, uint64_t key, weir_error *e)
{
	const float value = -1;
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	const weir_push_item item = {.table = table, .keys = &key, .rows = 1, .values = &value};
	weir_ticket ticket;
	const double sent = trainer_wall_ms();
	weir_status s = weir_push(c, &id, &item, 1, &(weir_push_options){.copy = 1}, NULL, NULL, &ticket, e);
	s = s == WEIR_OK ? weir_wait(c, ticket, -1, e) : s;
	const double acknowledged = trainer_wall_ms();
	if (s == WEIR_OK && acknowledged - sent >= LONG_MS)
		printf("%.3f %.3f\n", sent, acknowledged);
	return s;
}

static weir_status push_unit(weir_client *c, uint32_t table, uint64_t key, weir_error *e)
{
	weir_unit u;
	weir_status s = weir_unit_lease(c, &u, -1, e);
	if (s == WEIR_OK)
		s = weir_unit_begin(c, &u, BATCHES, e);
	for (uint32_t b = s == WEIR_OK ? u.watermark : BATCHES; b < BATCHES && s == WEIR_OK; b++)
		s = push_one(c, &u, b, table, key, e);
	if (s == WEIR_OK)
		s = weir_unit_commit(c, &u, e);
	return s == WEIR_E_STALE ? weir_rejoin(c, e) : s;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: push_gaps LEDGER PARTITION PARTITIONS\n");
		return 2;
	}
	const uint32_t partition = (uint32_t)atoi(argv[2]), partitions = (uint32_t)atoi(argv[3]);
	weir_client *c = NULL;
	weir_error e = {0};
	weir_init_segment zero = {.elements = 1, .kind = WEIR_INIT_ZERO};
	weir_table_spec rows = {.name = "rows", .kind = WEIR_EMBEDDING, .width = 1, .segments_count = 1, .segments = &zero};
	uint32_t table;
	uint64_t key = 0;
	rows.optimizer = (weir_optimizer){.kind = WEIR_OPT_SGD, .lr = 1};
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (weir_open(&c, &(weir_options){.ledger = argv[1], .name = "gaps", .dataset_fingerprint = 7, .dataset_units = UNITS}, &e) !=
	        WEIR_OK ||
	    weir_table_register(c, &rows, &table, &e) != WEIR_OK)
		return trainer_fail("open", &e);
	while (placement_embedding(table, key, partitions) != partition)
		key++;
	weir_status s = WEIR_OK;
	while (s == WEIR_OK)
		s = push_unit(c, table, key, &e);
	return trainer_fail("push", &e);
}
