/* A partition's header and a ledger's state, as servers read them from disks and checkpoints.
 * Accepted state is written again, and then read and written alike.
 *
 * Input: u8 kind (even: partition), the bytes. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame/frame.h"
#include "server/ledger/ledger.h"
#include "server/partition/partition_state.h"

enum { PARTITIONS = 2 };

static struct partition *new_partition(void)
{
	const weir_init_segment zero = {.elements = 4};
	const weir_table_spec spec = {.name = "rows",
	                              .kind = WEIR_EMBEDDING,
	                              .width = 4,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .segments_count = 1,
	                              .segments = &zero};
	struct partition_options o = {.partitions = PARTITIONS, .log = log_memory_create(), .clock = clock_system()};
	struct partition *p = partition_create(&o, NULL);
	weir_status status = partition_add_table(p, 1, &spec, NULL);
	assert(p && status == WEIR_OK);
	(void)status;
	return p;
}

static struct ledger *new_ledger(void)
{
	static const char *const servers[] = {"memory:0"};
	static const uint32_t places[PARTITIONS];
	struct ledger_options o = {.clock = clock_system(),
	                           .entropy = entropy_system(),
	                           .lease_ms = 1000,
	                           .passes = 2,
	                           .partitions = PARTITIONS,
	                           .servers_count = 1,
	                           .servers = servers,
	                           .partition_server = places};
	struct ledger *l = NULL;
	weir_status status = ledger_create(&l, &o, NULL);
	assert(status == WEIR_OK);
	(void)status;
	return l;
}

static void assert_equal_bytes(struct message *a, struct message *b)
{
	assert(a && b && a->bytes == b->bytes && memcmp(a->spans[0].data, b->spans[0].data, a->bytes) == 0);
	message_release(a);
	message_release(b);
}

static void check_partition(const uint8_t *data, size_t size)
{
	struct partition *p = new_partition(), *again = new_partition();
	weir_error err = {0};
	if (partition_state_import(p, data, size, &err) == WEIR_OK) {
		struct message *m = partition_state_export(p);
		weir_status status = partition_state_import(again, m->spans[0].data, m->bytes, &err);
		assert(status == WEIR_OK);
		(void)status;
		assert_equal_bytes(m, partition_state_export(again));
	} else {
		assert(err.text[0]);
	}
	partition_destroy(p);
	partition_destroy(again);
}

static void check_ledger(const uint8_t *data, size_t size)
{
	struct ledger *l = new_ledger(), *again = new_ledger();
	weir_error err = {0};
	if (ledger_merge(l, data, size, NULL, &err) == WEIR_OK) {
		struct message *m, *n;
		weir_status status = ledger_export_all(l, 1, &m, NULL);
		assert(status == WEIR_OK);
		status = ledger_merge(again, m->spans[0].data, m->bytes, NULL, &err);
		assert(status == WEIR_OK);
		status = ledger_export_all(again, 1, &n, NULL);
		assert(status == WEIR_OK);
		(void)status;
		assert_equal_bytes(m, n);
	} else {
		assert(err.text[0]);
	}
	ledger_destroy(l);
	ledger_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 2)
		check_ledger(data + 1, size - 1);
	else
		check_partition(data + 1, size - 1);
	return 0;
}

static uint8_t *seed_of(uint8_t which, struct message *m, size_t *size)
{
	uint8_t *out = malloc(m->bytes + 1);
	out[0] = which;
	memcpy(out + 1, m->spans[0].data, m->bytes);
	*size = m->bytes + 1;
	message_release(m);
	return out;
}

static void ignore(void *arg, const ProtobufCMessage *reply)
{
	(void)arg, (void)reply;
}

static struct message *ledger_example(void)
{
	struct ledger *l = new_ledger();
	Weir__V1__JoinRequest q = WEIR__V1__JOIN_REQUEST__INIT;
	Weir__V1__Dataset d = WEIR__V1__DATASET__INIT;
	d.units = 3;
	q.wire_version = FRAME_VERSION;
	q.name = (char *)(uintptr_t) "worker-0";
	q.dataset = &d;
	ledger_join(l, &q, NULL, ignore, NULL);
	struct message *m = NULL;
	weir_status status = ledger_export_all(l, 7, &m, NULL);
	assert(status == WEIR_OK);
	(void)status;
	ledger_destroy(l);
	return m;
}

static void on_reply(void *arg, const struct partition_reply *reply)
{
	(void)arg, (void)reply;
}

static struct message *partition_example(void)
{
	struct partition *p = new_partition();
	const struct record seals[] = {
	    {.kind = RECORD_SEAL, .pass = 1, .unit = 3, .attempt = 2},
	    {.kind = RECORD_RETIRE, .pass = 1, .unit = 1, .attempt = 1, .retire.unit_key = (uint64_t)1 << 32 | 2}};
	const struct cursor nothing = {0};
	partition_recovered(p);
	partition_begin(p, 1);
	for (uint32_t i = 0; i < 2; i++)
		partition_submit(p, &seals[i], &nothing, NULL, on_reply, NULL);
	struct message *m = partition_state_export(p);
	partition_destroy(p);
	return m;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	switch (i) {
	case 0:
		return seed_of(0, partition_example(), size);
	case 1:
		return seed_of(1, ledger_example(), size);
	default:
		return NULL;
	}
}
