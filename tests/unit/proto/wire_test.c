/* Control messages: round trips, limits with the field's name, and no bytes that crash or allocate
 * beyond a cap. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/base/limits.h"
#include "common/base/prng.h"
#include "common/metrics/metrics.h"
#include "proto/wire/wire.h"
#include "tests/unit/proto/pieces.h"
#include "tests/unit/proto/wire_samples.h"

/* Bytes that our code has requested from malloc since the last reset (the linker's --wrap): an
 * upper bound of its memory. */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
static size_t malloc_bytes;
static bool malloc_fails;

void *__wrap_malloc(size_t bytes)
{
	malloc_bytes += bytes;
	return malloc_fails ? NULL : __real_malloc(bytes);
}

static weir_status unpack(const ProtobufCMessageDescriptor *d, const struct bytes *b, size_t cut, ProtobufCMessage **out,
                          weir_error *err)
{
	struct message *m = pieces_of(b->data, b->size, cut);
	*err = (weir_error){0};
	weir_status status = wire_unpack(d, m, out, err);
	message_release(m);
	if (status) {
		assert_null(*out);
		assert_true(err->text[0] != '\0');
	}
	return status;
}

static void every_message_comes_back(void **state)
{
	(void)state;
	const ProtobufCMessageDescriptor *d;
	for (uint32_t i = 0; (d = sample_type(i)); i++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			struct bytes b = {0};
			ProtobufCMessage *m;
			weir_error err;
			sample_message(&b, d, seed, 1 + seed % 16, seed % 4);
			CHECK_OK(unpack(d, &b, 1 + seed * 7, &m, &err), err);
			struct message *again = wire_pack(m);
			assert_non_null(again);
			assert_int_equal(again->count, 1);
			assert_int_equal(again->bytes, b.size);
			assert_memory_equal(again->spans[0].data, b.data, b.size);
			message_release(again);
			wire_destroy(m);
			free(b.data);
		}
}

/* A message with every kind of field, by hand. */
static void fields_hold_what_was_sent(void **state)
{
	(void)state;
	static const uint8_t bytes[] = {
	    0x0a, 0x06, 0x08, 0x0d, 0x12, 0x02, 'n', 'o', /* status {code 13, text "no"} */
	    0x18, 0xac, 0x02,                             /* worker 300 */
	    0x3a, 0x0e, 0x08, 0x01,                       /* map {revision 1, */
	    0x12, 0x01, 'a',  0x12, 0x02, 'b',  'c',      /* servers "a", "bc", */
	    0x1a, 0x03, 0x00, 0x01, 0x00,                 /* server 0, 1, 0} */
	    0x4a, 0x04, 0x08, 0x02, 0x10, 0x05,           /* closed_low {2, 5} */
	};
	ProtobufCMessage *m;
	weir_error err;
	CHECK_OK(
	    unpack(&weir__v1__join_reply__descriptor, &(struct bytes){(uint8_t *)(uintptr_t)bytes, sizeof bytes, 0}, 3, &m, &err),
	    err);
	const Weir__V1__JoinReply *r = (const Weir__V1__JoinReply *)(void *)m;
	assert_int_equal(r->status->code, 13);
	assert_string_equal(r->status->text, "no");
	assert_int_equal(r->worker, 300);
	assert_int_equal(r->map->n_servers, 2);
	assert_string_equal(r->map->servers[1], "bc");
	assert_int_equal(r->map->n_server, 3);
	assert_int_equal(r->map->server[1], 1);
	assert_int_equal(r->closed_low->unit, 5);
	assert_null(r->job);
	wire_destroy(m);
	wire_destroy(NULL);
}

/* --- Limits */

struct bound {
	const char *message, *field;
	size_t max;
};
static const struct bound bounds[] = {
    {"Table", "name", 63},
    {"Table", "segments", 2048},
    {"Dataset", "description", 4096},
    {"PartitionMap", "servers", 256},
    {"PartitionMap", "server", 1024},
    {"PartitionMap", "epoch", 1024},
    {"PartitionMap", "in_sync", 1024},
    {"InSync", "server", 8},
    {"JoinReply", "tables", 1024},
    {"JoinReply", "process_ids", 256},
    {"JoinReply", "closes", 3},
    {"StepReply", "closes", 3},
    {"ProgressRequest", "process_ids", 256},
    {"ProgressRequest", "units", 4},
    {"RegisterTableReply", "partitions", 1024},
    {"ScrubReply", "partitions", 1024},
    {"PartitionScrub", "replicas", 8},
    {"CheckpointBeginReply", "taken", 1024},
    {"PartTotals", "count", 1024},
    {"PartTotals", "fingerprint", 1024},
    {"StepClose", "included", 4096},
    {"JoinRequest", "fingerprint", 65535},
    {"JoinRequest", "accept", 64},
    {"StepClose", "dropped", 4096},
    {"StepClose", "weights", 4096},
    {"TableStatus", "staleness", HISTOGRAM_BUCKETS},
    {"ProgressRequest", "staleness", HISTOGRAM_BUCKETS},
    {"LeaveRequest", "staleness", HISTOGRAM_BUCKETS},
    {"WorkerStatus", "staleness", HISTOGRAM_BUCKETS},
    {"WorkerStatus", "name", 63},
    {"WorkerStatus", "host", 255},
    {"TableStatus", "name", 63},
    {"CheckpointFile", "name", 191},
    {"ServerStatus", "partitions", 1024},
    {"ServerStatus", "tables", 1024},
    {"PartitionStatus", "members", 8},
    {"PartitionLayout", "in_sync", 8},
    {"PartitionLayout", "hosts", 8},
    {"LayoutReply", "servers", 256},
    {"LayoutReply", "partitions", 1024},
    {"LayoutReply", "tables", 1024},
    {"LayoutReply", "living", 256},
    {"PlaceRequest", "hosts", 8},
    {"CheckpointPollReply", "parts", 1024},
    {"CheckpointPart", "rows", 8},
    {"LedgerStatus", "workers", 4096},
    {"LedgerStatus", "tables", 1024},
    {"LedgerStatus", "servers", 256},
    {"LedgerStatus", "partition_server", 1024},
    {"LedgerStatus", "members", 8},
    {"LedgerStatus", "figures", 64},
    {"GateRequest", "figures", 64},
    {"Figure", "name", 47},
};

static size_t bound_of(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f)
{
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		if (strcmp(bounds[i].message, d->short_name) == 0 && strcmp(bounds[i].field, f->name) == 0)
			return bounds[i].max;
	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		fail_msg("%s.%s has no bound here", d->name, f->name);
	return f->type == PROTOBUF_C_TYPE_BYTES ? 16 : 768;
}

/* The field with this size is accepted, or refused by its name. */
static void check_field(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f, size_t text, size_t count,
                        bool fits)
{
	struct bytes b = {0};
	char name[128];
	ProtobufCMessage *m;
	weir_error err;
	sample_field(&b, f, 1, text, count);
	weir_status status = unpack(d, &b, b.size, &m, &err);
	snprintf(name, sizeof name, "%s.%s: ", d->name, f->name);
	if (fits) {
		CHECK_OK(status, err);
		wire_destroy(m);
	} else {
		assert_int_equal(status, WEIR_E_LIMIT);
		CHECK_CONTAINS(err.text, name);
		CHECK_CONTAINS(err.text, "at most");
	}
	free(b.data);
}

/* Checks every string, bytes and repeated field of d and of nested messages. Returns their
 * count. */
static uint32_t check_limits(const ProtobufCMessageDescriptor *d)
{
	uint32_t checked = 0;
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
		bool text = f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES;
		size_t max = bound_of(d, f), text_max = repeated ? WEIR_ADDRESS_BYTES_MAX : max;
		if (repeated) {
			check_field(d, f, 4, max, true);
			check_field(d, f, 4, max + 1, false);
		}
		if (text) {
			check_field(d, f, text_max, 1, true);
			check_field(d, f, text_max + 1, 1, false);
		}
		if (f->type == PROTOBUF_C_TYPE_MESSAGE)
			checked += check_limits(f->descriptor);
		checked += repeated + text;
	}
	return checked;
}

static void every_limit_holds(void **state)
{
	(void)state;
	const ProtobufCMessageDescriptor *d;
	uint32_t checked = 0;
	for (uint32_t i = 0; (d = sample_type(i)); i++)
		checked += check_limits(d);
	assert_true(checked > 60);
}

static void a_limit_inside_is_named(void **state)
{
	(void)state;
	struct bytes status = {0}, reply = {0};
	ProtobufCMessage *m;
	weir_error err;
	sample_field(&status, &weir__v1__status__descriptor.fields[1], 1, 769, 1);
	bytes_put(&reply, "\x0a", 1);
	bytes_varint(&reply, status.size);
	bytes_put(&reply, status.data, status.size);
	assert_int_equal(unpack(&weir__v1__gate_reply__descriptor, &reply, 64, &m, &err), WEIR_E_LIMIT);
	assert_string_equal(err.text, "weir.v1.Status.text: 769 bytes, at most 768");
	free(status.data);
	free(reply.data);
}

/* --- Memory */

/* Two bytes can become a struct of two hundred. Oversized messages are refused for their size,
 * others for their parsed size. */
static void empty_messages_are_refused_before_they_fill_the_heap(void **state)
{
	(void)state;
	static const size_t sizes[] = {WEIR_REPLY_BYTES_MAX + 2, WEIR_REPLY_BYTES_MAX, 1u << 20, 256u << 10};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct bytes b = {0};
		ProtobufCMessage *m;
		weir_error err = {0};
		while (b.size < sizes[i])
			bytes_put(&b, "\x42", 2); /* LedgerStatus.workers, 0 bytes each */
		struct message *in = message_copy(b.data, b.size);
		malloc_bytes = 0;
		assert_int_equal(wire_unpack(&weir__v1__ledger_status__descriptor, in, &m, &err), WEIR_E_LIMIT);
		assert_true(malloc_bytes <= b.size * WEIR_CONTROL_HEAP_FACTOR + WEIR_CONTROL_HEAP_FLOOR);
		CHECK_CONTAINS(err.text, "weir.v1.LedgerStatus: ");
		assert_true(sizes[i] <= WEIR_REPLY_BYTES_MAX || malloc_bytes == 0);
		message_release(in);
		free(b.data);
	}
}

static void no_memory_is_said(void **state)
{
	(void)state;
	struct bytes b = {0};
	ProtobufCMessage *m;
	weir_error err = {0};
	sample_message(&b, &weir__v1__join_reply__descriptor, 1, 4, 2);
	struct message *whole = message_copy(b.data, b.size), *cut = pieces_of(b.data, b.size, 7);
	malloc_fails = true;
	weir_status of_whole = wire_unpack(&weir__v1__join_reply__descriptor, whole, &m, &err);
	weir_status of_cut = wire_unpack(&weir__v1__join_reply__descriptor, cut, &m, NULL);
	malloc_fails = false;
	assert_int_equal(of_whole, WEIR_E_MEMORY);
	assert_int_equal(of_cut, WEIR_E_MEMORY);
	CHECK_CONTAINS(err.text, "out of memory");
	message_release(whole);
	message_release(cut);
	free(b.data);
}

/* --- Damage */

static void cut_or_flipped_bytes_never_crash(void **state)
{
	(void)state;
	const ProtobufCMessageDescriptor *d;
	struct prng random;
	uint32_t refused = 0;
	prng_seed(&random, 5);
	for (uint32_t i = 0; (d = sample_type(i)); i++) {
		struct bytes b = {0};
		ProtobufCMessage *m;
		weir_error err;
		sample_message(&b, d, i, 8, 3);
		for (size_t n = 0; n < b.size; n++) {
			if (unpack(d, &(struct bytes){b.data, n, 0}, 50, &m, &err) == WEIR_OK)
				wire_destroy(m); /* the cut is between two fields */
			else
				refused++;
			b.data[n] ^= (uint8_t)(1u << prng_u64(&random) % 8);
			if (unpack(d, &b, 50, &m, &err) == WEIR_OK)
				wire_destroy(m);
			else
				refused++;
			b.data[n] ^= (uint8_t)(prng_u64(&random) % 2); /* damage accumulates */
		}
		free(b.data);
	}
	assert_true(refused > 1000);
}

static void the_empty_message_is_one(void **state)
{
	(void)state;
	ProtobufCMessage *m;
	weir_error err;
	CHECK_OK(unpack(&weir__v1__status_request__descriptor, &(struct bytes){0}, 1, &m, &err), err);
	struct message *packed = wire_pack(m);
	assert_int_equal(packed->bytes, 0);
	message_release(packed);
	wire_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_message_comes_back),
	    cmocka_unit_test(fields_hold_what_was_sent),
	    cmocka_unit_test(every_limit_holds),
	    cmocka_unit_test(a_limit_inside_is_named),
	    cmocka_unit_test(empty_messages_are_refused_before_they_fill_the_heap),
	    cmocka_unit_test(no_memory_is_said),
	    cmocka_unit_test(cut_or_flipped_bytes_never_crash),
	    cmocka_unit_test(the_empty_message_is_one),
	};
	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
