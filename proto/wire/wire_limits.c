/* Checks limits in one walk over a message's descriptor. Every repeated field has a row in the
 * table below. Strings and bytes without a row have their type's default. */
#include "proto/wire/wire_limits.h"

#include <string.h>

#include "common/base/limits.h"
#include "common/metrics/metrics.h"
#include "weir/table.h"

/* One server may end up with everything, so each message must fit at the documented maximum of all
 * its contents. */
_Static_assert(WEIR_WORKERS_MAX *WIRE_WORKER_BYTES + WEIR_TABLES_MAX * WIRE_TABLE_BYTES + WEIR_SEGMENTS_MAX * WIRE_SEGMENT_BYTES +
                       WEIR_SERVERS_MAX * WEIR_ADDRESS_BYTES_MAX + 2 * WEIR_PARTITIONS_MAX * WIRE_TOTAL_BYTES +
                       WEIR_FIGURES_MAX * WIRE_FIGURE_BYTES <=
                   WEIR_REPLY_BYTES_MAX,
               "LedgerStatus must hold all workers, tables and servers, and the totals of all partitions");
_Static_assert(WEIR_PARTITIONS_MAX *WIRE_PARTITION_BYTES + WEIR_TABLES_MAX * WIRE_TABLE_STATUS_BYTES <= WEIR_REPLY_BYTES_MAX,
               "ServerStatus must hold all partitions and tables");
_Static_assert(WEIR_TABLES_MAX *WIRE_TABLE_BYTES + WEIR_SEGMENTS_MAX * WIRE_SEGMENT_BYTES +
                       WEIR_STEP_CLOSES_KEPT * WEIR_STEP_MEMBERS_MAX * WIRE_BATCH_BYTES +
                       WEIR_SERVERS_MAX * WEIR_ADDRESS_BYTES_MAX + WEIR_PARTITIONS_MAX * WIRE_PLACE_BYTES <=
                   WEIR_REPLY_BYTES_MAX,
               "JoinReply must hold all tables, the last steps and the map");
_Static_assert(WEIR_PARTITIONS_MAX *(1 + WEIR_CHECKPOINT_CHAIN_MAX) * WIRE_FILE_BYTES <= WEIR_REPLY_BYTES_MAX,
               "CheckpointPollReply must hold the files of all partitions");
_Static_assert(WEIR_STEP_CLOSES_KEPT *WEIR_STEP_MEMBERS_MAX *WIRE_BATCH_BYTES <= WEIR_CONTROL_BYTES_MAX,
               "StepReply must hold the last steps");
_Static_assert(WEIR_UNITS_HELD_MAX *WEIR_PARTITIONS_MAX *WIRE_TOTAL_BYTES <= WEIR_CONTROL_BYTES_MAX,
               "ProgressRequest must hold the totals of all units that a worker holds");
_Static_assert(WEIR_PARTITIONS_MAX *(WIRE_TOTAL_BYTES + 8) <= WEIR_CONTROL_BYTES_MAX,
               "MarkReply must hold the totals of all partitions");
_Static_assert(WEIR_SERVERS_MAX *WEIR_ADDRESS_BYTES_MAX + WEIR_PARTITIONS_MAX * WIRE_SCRUB_BYTES <= WEIR_CONTROL_BYTES_MAX,
               "MapReply, LayoutReply and ScrubReply must hold all partitions");

/* X(message, field, maximum). Repeated fields: number of elements. Strings and bytes: length. */
#define WIRE_LIMIT_MAP(X)                                                        \
	X("weir.v1.Table", "name", WEIR_TABLE_NAME_BYTES_MAX - 1)                    \
	X("weir.v1.Table", "segments", WEIR_TABLE_SEGMENTS_MAX)                      \
	X("weir.v1.Dataset", "description", WEIR_PATH_BYTES_MAX)                     \
	X("weir.v1.JoinRequest", "fingerprint", WEIR_FINGERPRINT_BYTES_MAX - 1)      \
	X("weir.v1.JoinRequest", "accept", WEIR_ACCEPTED_KEYS_MAX)                   \
	X("weir.v1.PartitionMap", "servers", WEIR_SERVERS_MAX)                       \
	X("weir.v1.PartitionMap", "server", WEIR_PARTITIONS_MAX)                     \
	X("weir.v1.PartitionMap", "epoch", WEIR_PARTITIONS_MAX)                      \
	X("weir.v1.PartitionMap", "in_sync", WEIR_PARTITIONS_MAX)                    \
	X("weir.v1.InSync", "server", WEIR_REPLICAS_MAX)                             \
	X("weir.v1.JoinReply", "tables", WEIR_TABLES_MAX)                            \
	X("weir.v1.JoinReply", "process_ids", WEIR_SERVERS_MAX)                      \
	X("weir.v1.ProgressRequest", "process_ids", WEIR_SERVERS_MAX)                \
	X("weir.v1.ProgressRequest", "staleness", HISTOGRAM_BUCKETS)                 \
	X("weir.v1.LeaveRequest", "staleness", HISTOGRAM_BUCKETS)                    \
	X("weir.v1.WorkerStatus", "staleness", HISTOGRAM_BUCKETS)                    \
	X("weir.v1.PartTotals", "count", WEIR_PARTITIONS_MAX)                        \
	X("weir.v1.PartTotals", "fingerprint", WEIR_PARTITIONS_MAX)                  \
	X("weir.v1.LedgerStateReply", "data", WEIR_LEDGER_PIECE_BYTES)               \
	X("weir.v1.StepClose", "included", WEIR_STEP_MEMBERS_MAX)                    \
	X("weir.v1.StepClose", "dropped", WEIR_STEP_MEMBERS_MAX)                     \
	X("weir.v1.StepClose", "weights", WEIR_STEP_MEMBERS_MAX)                     \
	X("weir.v1.WorkerStatus", "name", WEIR_NAME_BYTES_MAX - 1)                   \
	X("weir.v1.WorkerStatus", "host", WEIR_ADDRESS_BYTES_MAX - 1)                \
	X("weir.v1.TableStatus", "name", WEIR_TABLE_NAME_BYTES_MAX - 1)              \
	X("weir.v1.CheckpointFile", "name", WEIR_BLOB_NAME_BYTES_MAX - 1)            \
	X("weir.v1.TableStatus", "staleness", HISTOGRAM_BUCKETS)                     \
	X("weir.v1.ServerStatus", "partitions", WEIR_PARTITIONS_MAX)                 \
	X("weir.v1.ServerStatus", "tables", WEIR_TABLES_MAX)                         \
	X("weir.v1.PartitionStatus", "members", WEIR_REPLICAS_MAX)                   \
	X("weir.v1.CheckpointPollReply", "parts", WEIR_PARTITIONS_MAX)               \
	X("weir.v1.CheckpointPart", "rows", WEIR_CHECKPOINT_CHAIN_MAX)               \
	X("weir.v1.LedgerStatus", "workers", WEIR_WORKERS_MAX)                       \
	X("weir.v1.LedgerStatus", "tables", WEIR_TABLES_MAX)                         \
	X("weir.v1.LedgerStatus", "servers", WEIR_SERVERS_MAX)                       \
	X("weir.v1.LedgerStatus", "partition_server", WEIR_PARTITIONS_MAX)           \
	X("weir.v1.LedgerStatus", "members", WEIR_REPLICAS_MAX)                      \
	X("weir.v1.LedgerStatus", "figures", WEIR_FIGURES_MAX)                       \
	X("weir.v1.GateRequest", "figures", WEIR_FIGURES_MAX)                        \
	X("weir.v1.Figure", "name", WEIR_FIGURE_NAME_BYTES_MAX - 1)                  \
	X("weir.v1.HostsRecord", "hosts", WEIR_REPLICAS_MAX)                         \
	X("weir.v1.PartitionLayout", "in_sync", WEIR_REPLICAS_MAX)                   \
	X("weir.v1.PartitionLayout", "hosts", WEIR_REPLICAS_MAX)                     \
	X("weir.v1.LayoutReply", "servers", WEIR_SERVERS_MAX)                        \
	X("weir.v1.LayoutReply", "partitions", WEIR_PARTITIONS_MAX)                  \
	X("weir.v1.LayoutReply", "living", WEIR_SERVERS_MAX)                         \
	X("weir.v1.PlaceRequest", "hosts", WEIR_REPLICAS_MAX)                        \
	X("weir.v1.ServerRecord", "address", WEIR_ADDRESS_BYTES_MAX - 1)             \
	X("weir.v1.NextRecord", "checkpoint", WEIR_CHECKPOINT_NAME_BYTES_MAX - 1)    \
	X("weir.v1.NextRecord", "why", WEIR_REWIND_WHY_BYTES_MAX - 1)                \
	X("weir.v1.RewindRequest", "checkpoint", WEIR_CHECKPOINT_NAME_BYTES_MAX - 1) \
	X("weir.v1.RewindReply", "checkpoint", WEIR_CHECKPOINT_NAME_BYTES_MAX - 1)   \
	X("weir.v1.RegisterTableReply", "partitions", WEIR_PARTITIONS_MAX)           \
	X("weir.v1.PartitionScrub", "replicas", WEIR_REPLICAS_MAX)                   \
	X("weir.v1.ScrubReply", "partitions", WEIR_PARTITIONS_MAX)                   \
	X("weir.v1.JoinReply", "closes", WEIR_STEP_CLOSES_KEPT)                      \
	X("weir.v1.StepReply", "closes", WEIR_STEP_CLOSES_KEPT)                      \
	X("weir.v1.ProgressRequest", "units", WEIR_UNITS_HELD_MAX)                   \
	X("weir.v1.CheckpointBeginReply", "taken", WEIR_PARTITIONS_MAX)              \
	X("weir.v1.MarkRequest", "partitions", WEIR_PARTITIONS_MAX)                  \
	X("weir.v1.MarkReply", "totals", WEIR_PARTITIONS_MAX)                        \
	X("weir.v1.TraceReply", "data", WEIR_TRACE_PIECE_BYTES)                      \
	X("weir.v1.TraceUploadRequest", "data", WEIR_TRACE_PIECE_BYTES)              \
	X("weir.v1.TraceUploadRequest", "name", WEIR_NAME_BYTES_MAX - 1)             \
	X("etcdserverpb.TxnResponse", "responses", WEIR_COORD_TXN_MAX)               \
	X("etcdserverpb.KeyValue", "value", WEIR_COORD_VALUE_BYTES_MAX)              \
	X("etcdserverpb.RangeResponse", "kvs", WEIR_COORD_READ_RECORDS_MAX)          \
	X("etcdserverpb.WatchResponse", "events", WEIR_COORD_READ_RECORDS_MAX)

#define STRING_BYTES_DEFAULT WEIR_ERROR_TEXT_BYTES
#define BYTES_DEFAULT        16u /* a uuid */

/* Replies that describe a whole job: their limit is the size at the documented maxima (limits.h
 * adds them up). */
#define WIRE_WHOLE_JOB_MAP(X) \
	X("weir.v1.JoinReply") X("weir.v1.LedgerStatus") X("weir.v1.ServerStatus") X("weir.v1.CheckpointPollReply")

size_t wire_bytes_max(const ProtobufCMessageDescriptor *type)
{
#define WIRE_WHOLE_JOB_ROW(message)   \
	if (!strcmp(type->name, message)) \
		return WEIR_REPLY_BYTES_MAX;
	WIRE_WHOLE_JOB_MAP(WIRE_WHOLE_JOB_ROW)
#undef WIRE_WHOLE_JOB_ROW
	return WEIR_CONTROL_BYTES_MAX;
}

size_t wire_limit_of(const char *message, const char *field, size_t otherwise)
{
	static const struct {
		const char *message, *field;
		size_t max;
	} limits[] = {
#define WIRE_LIMIT_ROW(message, field, max) {message, field, max},
	    WIRE_LIMIT_MAP(WIRE_LIMIT_ROW)
#undef WIRE_LIMIT_ROW
	};
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (strcmp(limits[i].message, message) == 0 && strcmp(limits[i].field, field) == 0)
			return limits[i].max;
	return otherwise;
}

static weir_status too_large(const ProtobufCMessage *m, const char *field, size_t n, size_t max, const char *unit,
                             weir_error *err)
{
	return weir_fail(err, WEIR_E_LIMIT, "%s.%s: %zu %s, at most %zu", m->descriptor->name, field, n, unit, max);
}

/* Checks one value of a string, bytes or message field. */
static weir_status check_value(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const void *value, size_t bytes_max,
                               weir_error *err)
{
	if (f->type == PROTOBUF_C_TYPE_STRING) {
		const char *s = *(char *const *)value;
		size_t n = s ? strlen(s) : 0;
		return n > bytes_max ? too_large(m, f->name, n, bytes_max, "bytes", err) : WEIR_OK;
	}
	if (f->type == PROTOBUF_C_TYPE_BYTES) {
		const ProtobufCBinaryData *b = value;
		return b->len > bytes_max ? too_large(m, f->name, b->len, bytes_max, "bytes", err) : WEIR_OK;
	}
	const ProtobufCMessage *inner = *(ProtobufCMessage *const *)value;
	return inner ? wire_check_limits(inner, err) : WEIR_OK;
}

static weir_status check_repeated(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, weir_error *err)
{
	const uint8_t *base = (const uint8_t *)m;
	size_t n = *(const size_t *)(const void *)(base + f->quantifier_offset);
	size_t max = wire_limit_of(m->descriptor->name, f->name, 0);
	if (n > max)
		return too_large(m, f->name, n, max, "elements", err);
	if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
		return WEIR_OK;
	void *const *items = *(void *const *const *)(const void *)(base + f->offset);
	for (size_t i = 0; i < n; i++) {
		weir_status status = check_value(m, f, &items[i], WEIR_ADDRESS_BYTES_MAX, err);
		if (status)
			return status;
	}
	return WEIR_OK;
}

weir_status wire_check_limits(const ProtobufCMessage *m, weir_error *err)
{
	const ProtobufCMessageDescriptor *d = m->descriptor;
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		bool sized = f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES || f->type == PROTOBUF_C_TYPE_MESSAGE;
		weir_status status = WEIR_OK;
		if (f->label == PROTOBUF_C_LABEL_REPEATED)
			status = check_repeated(m, f, err);
		else if (sized)
			status = check_value(
			    m, f, (const uint8_t *)m + f->offset,
			    wire_limit_of(d->name, f->name, f->type == PROTOBUF_C_TYPE_BYTES ? BYTES_DEFAULT : STRING_BYTES_DEFAULT), err);
		if (status)
			return status;
	}
	return WEIR_OK;
}
