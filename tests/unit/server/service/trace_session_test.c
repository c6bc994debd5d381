/* The calls of a trace: one session at a time, spans of the server and of workers, in pieces. */
#include "common/trace/trace_dump.h"

#include <stdlib.h>

#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/service/service_fixture.h"

enum { LONG_MS = 60000, SHORT_MS = 1 };
enum { CLOCK = WEIR__V1__TRACE_ACTION__TRACE_CLOCK, BEGIN, READ, END };

struct asked {
	struct cluster k;
	struct client c;
	uint32_t sources, complete; /* as last answered */
	uint64_t bytes_total;
	size_t bytes; /* of the last piece */
	uint8_t *data;
};

static void open_asked(struct asked *a)
{
	*a = (struct asked){0};
	cluster_open(&a->k, 1, 2);
	client_open(&a->c, a->k.rpc, cluster_address(0), RPC_PULL_STREAM);
}

static void close_asked(struct asked *a)
{
	free(a->data);
	client_close(&a->c);
	cluster_close(&a->k);
}

static ProtobufCMessage *call(struct asked *a, enum rpc_method method, const ProtobufCMessage *q,
                              const ProtobufCMessageDescriptor *type)
{
	struct message *reply;
	ProtobufCMessage *m = NULL;
	weir_error err = {0};
	CHECK_OK(rpc_call_wait(a->c.channel, method, wire_pack(q), 5000, &reply, &err), err);
	CHECK_OK(wire_unpack(type, reply, &m, &err), err);
	message_release(reply);
	return m;
}

static weir_status ask(struct asked *a, uint32_t action, uint64_t session, uint32_t duration_ms, uint32_t source, uint64_t offset)
{
	Weir__V1__TraceRequest q = WEIR__V1__TRACE_REQUEST__INIT;
	q.action = (Weir__V1__TraceAction)action;
	q.session = session;
	q.duration_ms = duration_ms;
	q.source = source;
	q.offset = offset;
	ProtobufCMessage *m = call(a, RPC_TRACE, &q.base, &weir__v1__trace_reply__descriptor);
	const Weir__V1__TraceReply *r = (const Weir__V1__TraceReply *)m;
	const weir_status status = (weir_status)r->status->code;
	assert_true(r->clock_ns > 0);
	a->sources = r->sources;
	a->complete = r->complete;
	a->bytes_total = r->bytes_total;
	a->bytes = r->data.len;
	free(a->data);
	a->data = malloc(r->data.len + 1);
	if (r->data.len)
		memcpy(a->data, r->data.data, r->data.len);
	wire_destroy(m);
	return status;
}

static weir_status upload(struct asked *a, uint64_t session, const char *name, uint64_t total, uint64_t offset, const char *text)
{
	Weir__V1__TraceUploadRequest q = WEIR__V1__TRACE_UPLOAD_REQUEST__INIT;
	q.session = session;
	q.name = (char *)(uintptr_t)name;
	q.bytes_total = total;
	q.offset = offset;
	q.data = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
	ProtobufCMessage *m = call(a, RPC_TRACE_UPLOAD, &q.base, &weir__v1__trace_upload_reply__descriptor);
	const weir_status status = (weir_status)((const Weir__V1__TraceUploadReply *)m)->status->code;
	wire_destroy(m);
	return status;
}

static bool has_ended(struct asked *a)
{
	return ask(a, READ, 2, 0, 0, 0) != WEIR_E_NOT_CURRENT;
}

static void one_session_at_a_time(void **state)
{
	(void)state;
	struct asked a;
	open_asked(&a);
	assert_int_equal(ask(&a, CLOCK, 0, 0, 0, 0), WEIR_OK);
	assert_int_equal(a.sources, 0);
	assert_int_equal(ask(&a, BEGIN, 0, LONG_MS, 0, 0), WEIR_E_INVALID);
	assert_int_equal(ask(&a, BEGIN, 1, 0, 0, 0), WEIR_E_INVALID);
	assert_int_equal(ask(&a, BEGIN, 1, WEIR_TRACE_MS_MAX + 1, 0, 0), WEIR_E_INVALID);
	assert_int_equal(ask(&a, READ, 1, 0, 0, 0), WEIR_E_NOT_FOUND);
	assert_int_equal(ask(&a, BEGIN, 1, LONG_MS, 0, 0), WEIR_OK);
	assert_int_equal(ask(&a, BEGIN, 1, LONG_MS, 0, 0), WEIR_OK); /* a repeat */
	assert_int_equal(ask(&a, BEGIN, 2, LONG_MS, 0, 0), WEIR_E_BUSY);
	assert_int_equal(ask(&a, READ, 1, 0, 0, 0), WEIR_E_NOT_CURRENT);
	assert_int_equal(ask(&a, END, 2, 0, 0, 0), WEIR_E_NOT_FOUND);
	assert_int_equal(ask(&a, END, 1, 0, 0, 0), WEIR_OK);
	assert_int_equal(ask(&a, BEGIN, 2, LONG_MS, 0, 0), WEIR_OK);
	assert_int_equal(ask(&a, 9, 2, 0, 0, 0), WEIR_E_UNSUPPORTED);
	close_asked(&a);
}

static void workers_hand_in_pieces(void **state)
{
	(void)state;
	struct asked a;
	open_asked(&a);
	assert_int_equal(upload(&a, 1, "worker-0", 0, 0, ""), WEIR_E_NOT_FOUND);
	assert_int_equal(ask(&a, BEGIN, 1, LONG_MS, 0, 0), WEIR_OK);
	assert_int_equal(upload(&a, 1, "worker-0", 0, 0, ""), WEIR_OK); /* announces itself */
	assert_int_equal(upload(&a, 1, "worker-1", 0, 0, ""), WEIR_OK);
	assert_int_equal(upload(&a, 1, "worker-0", 6, 0, "abc"), WEIR_OK);
	assert_int_equal(upload(&a, 1, "worker-0", 6, 4, "e"), WEIR_E_INVALID);    /* not the next piece */
	assert_int_equal(upload(&a, 1, "worker-0", 7, 3, "d"), WEIR_E_INVALID);    /* another size */
	assert_int_equal(upload(&a, 1, "worker-0", 6, 3, "defg"), WEIR_E_INVALID); /* too much */
	assert_int_equal(upload(&a, 1, "worker-0", 6, 3, "def"), WEIR_OK);
	assert_int_equal(upload(&a, 1, "worker-1", WEIR_TRACE_BYTES_MAX, 0, "x"), WEIR_E_LIMIT); /* with worker-0's */
	assert_int_equal(ask(&a, CLOCK, 1, 0, 0, 0), WEIR_OK);
	assert_int_equal(a.sources, 3);
	assert_int_equal(a.complete, 2);
	assert_int_equal(upload(&a, 1, "worker-0", 3, 0, "xyz"), WEIR_OK); /* another process of that name */
	close_asked(&a);
}

static void spans_are_read_once_the_trace_has_ended(void **state)
{
	(void)state;
	struct asked a;
	struct trace_process p;
	weir_error err = {0};
	open_asked(&a);
	assert_int_equal(ask(&a, BEGIN, 2, SHORT_MS, 0, 0), WEIR_OK);
	assert_int_equal(upload(&a, 2, "worker-0", 3, 0, "abc"), WEIR_OK);
	assert_int_equal(upload(&a, 2, "worker-1", 0, 0, ""), WEIR_OK);
	AWAIT(has_ended(&a), "the trace does not end");
	assert_int_equal(ask(&a, READ, 2, 0, 0, 0), WEIR_OK);
	assert_int_equal(a.bytes, a.bytes_total);
	CHECK_OK(trace_dump_read(a.data, a.bytes, &p, &err), err);
	assert_string_equal(p.name, "server-0");
	trace_process_destroy(&p);
	assert_int_equal(ask(&a, READ, 2, 0, 1, 1), WEIR_OK);
	assert_int_equal(a.bytes, 2);
	assert_memory_equal(a.data, "bc", 2);
	assert_int_equal(ask(&a, READ, 2, 0, 1, 4), WEIR_E_INVALID);
	assert_int_equal(ask(&a, READ, 2, 0, 2, 0), WEIR_E_NOT_CURRENT);
	assert_int_equal(ask(&a, READ, 2, 0, 3, 0), WEIR_E_INVALID);
	assert_int_equal(ask(&a, END, 2, 0, 0, 0), WEIR_OK);
	assert_int_equal(ask(&a, READ, 2, 0, 0, 0), WEIR_E_NOT_FOUND);
	close_asked(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_session_at_a_time),
	    cmocka_unit_test(workers_hand_in_pieces),
	    cmocka_unit_test(spans_are_read_once_the_trace_has_ended),
	};
	return cmocka_run_group_tests_name("trace_session", tests, NULL, NULL);
}
