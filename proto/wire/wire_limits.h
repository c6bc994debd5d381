/* Limits of control messages, field by field. Private to wire*.c and their tests. */
#ifndef WEIR_WIRE_LIMITS_H
#define WEIR_WIRE_LIMITS_H

#include <protobuf-c/protobuf-c.h>

#include "common/base/limits.h"
#include "weir/status.h"

/* Most bytes of one element on the wire. */
enum {
	/* Of a LedgerStatus, without its histogram. */
	WIRE_WORKER_BYTES = WEIR_NAME_BYTES_MAX + WEIR_ADDRESS_BYTES_MAX + 160,
	WIRE_TABLE_BYTES = 512,
	WIRE_SEGMENT_BYTES = 20,
	WIRE_PARTITION_BYTES = 256, /* of a ServerStatus */
	/* Likewise; no count of its histogram exceeds 2^35. */
	WIRE_TABLE_STATUS_BYTES = 2900,
	WIRE_BATCH_BYTES = 18, /* of a closed step */
	WIRE_FIGURE_BYTES = WEIR_FIGURE_NAME_BYTES_MAX + 16,
	WIRE_TOTAL_BYTES = 20, /* of a partition: parts and fingerprint */
	WIRE_PLACE_BYTES = 48, /* of a partition in the map */
	/* Of a partition whose replicas were compared, or in a layout. */
	WIRE_SCRUB_BYTES = 320,
	WIRE_FILE_BYTES = WEIR_BLOB_NAME_BYTES_MAX + 64 /* of a checkpoint */
};

/* Checks every string, bytes and repeated field of m and of its nested messages. No message type
 * contains itself, so weir.proto bounds the depth. */
weir_status wire_check_limits(const ProtobufCMessage *m, weir_error *err) WEIR_MUST_CHECK;
/* The most bytes of one packed message of this type. */
size_t wire_bytes_max(const ProtobufCMessageDescriptor *type);
/* The limit of a field: elements of a repeated field, or bytes of a string. `otherwise` if the
 * table has none. */
size_t wire_limit_of(const char *message, const char *field, size_t otherwise);

#endif
