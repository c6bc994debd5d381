/* Every control message fits the documented maximum of its contents: with every field at its
 * largest, and with every field present but empty, where a few bytes become a whole struct. The
 * tests build messages from descriptors. */
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"

#include "common/base/limits.h"
#include "common/metrics/metrics.h"
#include "proto/wire/wire.h"
#include "proto/wire/wire_limits.h"
#include "tests/unit/proto/wire_samples.h"

enum { FULL, EMPTY };

struct filler {
	int how;
	uint32_t segments; /* remaining for this message's tables */
};

static void fill(struct filler *f, struct bytes *b, const ProtobufCMessageDescriptor *d);

static bool is_histogram(const ProtobufCFieldDescriptor *f)
{
	return strcmp(f->name, "staleness") == 0;
}

static size_t elements_of(struct filler *f, const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *field)
{
	size_t n = wire_limit_of(d->name, field->name, 0);
	if (strcmp(d->name, "weir.v1.Table") == 0 && strcmp(field->name, "segments") == 0) {
		n = f->segments < n ? f->segments : n;
		f->segments -= (uint32_t)n;
	}
	if (strcmp(d->name, "weir.v1.WorkerStatus") == 0 && is_histogram(field))
		n = 0; /* a job with so many workers has none */
	return n;
}

static void put_value(struct filler *f, struct bytes *b, const ProtobufCMessageDescriptor *d,
                      const ProtobufCFieldDescriptor *field)
{
	static const uint8_t text[WEIR_LEDGER_PIECE_BYTES];
	struct bytes inner = {0};
	size_t n = 0;
	switch (field->type) {
	case PROTOBUF_C_TYPE_MESSAGE:
		fill(f, &inner, field->descriptor);
		bytes_varint(b, inner.size);
		bytes_put(b, inner.data, inner.size);
		free(inner.data);
		break;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
		if (f->how == FULL)
			n = field->label == PROTOBUF_C_LABEL_REPEATED
			        ? WEIR_ADDRESS_BYTES_MAX - 1
			        : wire_limit_of(d->name, field->name, field->type == PROTOBUF_C_TYPE_BYTES ? 16 : 255);
		bytes_varint(b, n);
		if (field->type == PROTOBUF_C_TYPE_BYTES)
			bytes_put(b, text, n);
		else
			for (size_t i = 0; i < n; i++)
				bytes_put(b, "x", 1);
		break;
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		bytes_put(b, text, 8);
		break;
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		bytes_put(b, text, 4);
		break;
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		bytes_varint(b, 1);
		break;
	case PROTOBUF_C_TYPE_UINT32: /* server or partition ids */
		bytes_varint(b, field->label == PROTOBUF_C_LABEL_REPEATED ? UINT16_MAX : UINT32_MAX);
		break;
	default:
		bytes_varint(b, is_histogram(field) ? (1ull << 35) - 1 : UINT64_MAX);
	}
}

static uint32_t wire_type(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_MESSAGE:
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
		return 2;
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 1;
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return 5;
	default:
		return 0;
	}
}

static void fill(struct filler *f, struct bytes *b, const ProtobufCMessageDescriptor *d)
{
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &d->fields[i];
		const bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
		if (!repeated && f->how == EMPTY)
			continue;
		const size_t n = repeated ? elements_of(f, d, field) : 1;
		if (repeated && wire_type(field) != 2) {
			struct bytes packed = {0};
			for (size_t k = 0; k < n && f->how == FULL; k++)
				put_value(f, &packed, d, field);
			if (packed.size) {
				bytes_varint(b, (uint64_t)field->id << 3 | 2);
				bytes_varint(b, packed.size);
				bytes_put(b, packed.data, packed.size);
			}
			free(packed.data);
			continue;
		}
		for (size_t k = 0; k < n; k++) {
			bytes_varint(b, (uint64_t)field->id << 3 | wire_type(field));
			put_value(f, b, d, field);
		}
	}
}

static void a_message_fits_at_its_largest(void **state)
{
	(void)state;
	const ProtobufCMessageDescriptor *d;
	for (int how = FULL; how <= EMPTY; how++)
		for (uint32_t i = 0; (d = sample_type(i)); i++) {
			struct filler f = {.how = how, .segments = WEIR_SEGMENTS_MAX};
			struct bytes b = {0};
			ProtobufCMessage *m;
			weir_error err = {0};
			fill(&f, &b, d);
			struct message *in = message_copy(b.data, b.size);
			assert_non_null(in);
			CHECK_OK(wire_unpack(d, in, &m, &err), err);
			wire_destroy(m);
			message_release(in);
			free(b.data);
		}
}

/* The bytes of one element with tag and length. */
static size_t bytes_of(const ProtobufCMessageDescriptor *d, uint32_t segments)
{
	struct filler f = {.how = FULL, .segments = segments};
	struct bytes b = {0};
	fill(&f, &b, d);
	free(b.data);
	return b.size + 4;
}

static void elements_are_no_larger_than_is_assumed(void **state)
{
	(void)state;
	assert_in_range(bytes_of(&weir__v1__worker_status__descriptor, 0), 1, WIRE_WORKER_BYTES);
	assert_in_range(bytes_of(&weir__v1__table__descriptor, 0), 1, WIRE_TABLE_BYTES);
	assert_in_range(bytes_of(&weir__v1__init_segment__descriptor, 0), 1,
	                WIRE_SEGMENT_BYTES + 8); /* its elements are below 2^40 */
	assert_in_range(bytes_of(&weir__v1__partition_status__descriptor, 0), 1, WIRE_PARTITION_BYTES);
	assert_in_range(bytes_of(&weir__v1__table_status__descriptor, 0), 1, WIRE_TABLE_STATUS_BYTES);
	/* units and batches are below 2^22 */
	assert_in_range(bytes_of(&weir__v1__batch_id__descriptor, 0), 1, WIRE_BATCH_BYTES + 4);
	assert_in_range(bytes_of(&weir__v1__part_totals__descriptor, 0), 1, WEIR_PARTITIONS_MAX * WIRE_TOTAL_BYTES);
	assert_in_range(bytes_of(&weir__v1__partition_scrub__descriptor, 0), 1, WIRE_SCRUB_BYTES);
	assert_in_range(bytes_of(&weir__v1__partition_layout__descriptor, 0), 1, WIRE_SCRUB_BYTES);
	assert_in_range(bytes_of(&weir__v1__checkpoint_file__descriptor, 0), 1, WIRE_FILE_BYTES);
	assert_in_range(bytes_of(&weir__v1__partition_map__descriptor, 0), 1,
	                WEIR_SERVERS_MAX * WEIR_ADDRESS_BYTES_MAX + WEIR_PARTITIONS_MAX * WIRE_PLACE_BYTES + 64);
}

/* Every repeated field needs a row, or its limit would be 0. */
static void check_rows(const ProtobufCMessageDescriptor *d)
{
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		if (f->label == PROTOBUF_C_LABEL_REPEATED && !wire_limit_of(d->name, f->name, 0))
			fail_msg("%s.%s has no limit in wire_limits.c", d->name, f->name);
		if (f->type == PROTOBUF_C_TYPE_MESSAGE)
			check_rows(f->descriptor);
	}
}

static void every_repeated_field_has_a_limit(void **state)
{
	(void)state;
	const ProtobufCMessageDescriptor *d;
	for (uint32_t i = 0; (d = sample_type(i)); i++)
		check_rows(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_repeated_field_has_a_limit),
	    cmocka_unit_test(elements_are_no_larger_than_is_assumed),
	    cmocka_unit_test(a_message_fits_at_its_largest),
	};
	return cmocka_run_group_tests_name("wire_limits", tests, NULL, NULL);
}
