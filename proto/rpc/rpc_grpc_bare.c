/* Bare streams: each batch is awaited before the next. As in the rpc layer, one message is being
 * sent and one received. */
#include "proto/rpc/rpc_grpc_bare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include "proto/rpc/rpc_grpc.h"

typedef float wire_float __attribute__((aligned(1), may_alias));

/* One end of one stream. */
struct bare_stream {
	grpc_call *call;
	grpc_completion_queue *cq;
};

static bool wait_event(grpc_completion_queue *cq)
{
	grpc_event e = grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	return e.type == GRPC_OP_COMPLETE && e.success;
}

static bool run_batch(const struct bare_stream *s, const grpc_op *ops, size_t n)
{
	return grpc_call_start_batch(s->call, ops, n, NULL, NULL) == GRPC_CALL_OK && wait_event(s->cq);
}

/* Takes the slice over. */
static bool send_slice(const struct bare_stream *s, grpc_slice slice)
{
	grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b};
	bool sent = run_batch(s, &op, 1);
	grpc_byte_buffer_destroy(b);
	return sent;
}

/* Consumes the bytes of a slice that begins `at` bytes into the table or the caller's memory. */
typedef void (*consume_fn)(uint8_t *to, size_t at, const uint8_t *bytes, size_t n);

static void discard(uint8_t *to, size_t at, const uint8_t *bytes, size_t n)
{
	(void)to, (void)at, (void)bytes, (void)n;
}

/* Skips numbers that straddle two slices, one in 16,384. */
static void reduce(uint8_t *to, size_t at, const uint8_t *bytes, size_t n)
{
	size_t skip = -at % sizeof(float), count = n < skip ? 0 : (n - skip) / sizeof(float);
	float *restrict sum = (float *)(void *)(to + at + skip);
	const wire_float *restrict values = (const wire_float *)(const void *)(bytes + skip);
	for (size_t i = 0; i < count; i++)
		sum[i] += values[i];
}

static void copy(uint8_t *to, size_t at, const uint8_t *bytes, size_t n)
{
	memcpy(to + at, bytes, n);
}

/* Receives one message and consumes its slices. False: no message, or one of another size. */
static bool receive(const struct bare_stream *s, size_t bytes, consume_fn consume, uint8_t *to, size_t at)
{
	grpc_byte_buffer *b = NULL;
	const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &b};
	if (!run_batch(s, &op, 1) || !b)
		return false;
	bool whole = grpc_byte_buffer_length(b) == bytes;
	grpc_byte_buffer_reader reader;
	grpc_slice *slice;
	if (whole && grpc_byte_buffer_reader_init(&reader, b)) {
		for (; grpc_byte_buffer_reader_peek(&reader, &slice); at += GRPC_SLICE_LENGTH(*slice))
			consume(to, at, GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice));
		grpc_byte_buffer_reader_destroy(&reader);
	}
	grpc_byte_buffer_destroy(b);
	return whole;
}

/* Sends or receives all messages of an order, from or to memory that is used cyclically. The
 * memory outlives the connection, because gRPC may still hold sent bytes when their batch has
 * completed. */
static bool send_all(const struct bare_stream *s, const struct bare_order *o, const uint8_t *memory, size_t memory_bytes)
{
	for (uint64_t i = 0; i < o->messages; i++)
		if (!send_slice(s, grpc_slice_from_static_buffer(memory + i * o->message_bytes % memory_bytes, o->message_bytes)))
			return false;
	return true;
}

static bool receive_all(const struct bare_stream *s, const struct bare_order *o, consume_fn consume, uint8_t *memory,
                        size_t memory_bytes)
{
	for (uint64_t i = 0; i < o->messages; i++)
		if (!receive(s, o->message_bytes, consume, memory, i * o->message_bytes % memory_bytes))
			return false;
	return true;
}

/* --- The server */

static void serve_order(const struct bare_stream *s, uint8_t *table)
{
	struct bare_order order = {0};
	const grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
	bool done = run_batch(s, &open, 1) && receive(s, sizeof order, copy, (uint8_t *)&order, 0) && order.table_bytes > 0 &&
	            order.table_bytes <= BARE_TABLE_BYTES_MAX && order.message_bytes <= order.table_bytes;
	if (done && order.work == BARE_COPY)
		done = send_all(s, &order, table, order.table_bytes);
	else if (done)
		done = receive_all(s, &order, order.work == BARE_REDUCE ? reduce : discard, table, order.table_bytes);
	int cancelled;
	const grpc_op end[] = {
	    {.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
	     .data.send_status_from_server.status = done ? GRPC_STATUS_OK : GRPC_STATUS_INVALID_ARGUMENT},
	    {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &cancelled},
	};
	(void)run_batch(s, end, 2); /* fails when the client is gone */
}

static bool serve_next(grpc_server *server, grpc_completion_queue *cq, uint8_t *table)
{
	struct bare_stream s = {.cq = cq};
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_call_details_init(&details);
	grpc_metadata_array_init(&metadata);
	bool came = grpc_server_request_call(server, &s.call, &details, &metadata, cq, cq, NULL) == GRPC_CALL_OK && wait_event(cq);
	if (came) {
		serve_order(&s, table);
		grpc_call_unref(s.call);
	}
	grpc_metadata_array_destroy(&metadata);
	grpc_call_details_destroy(&details);
	return came;
}

int bare_serve(int address_fd)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	grpc_arg args[GRPC_ARGS_COMMON];
	grpc_channel_args list = {grpc_args_common(args, WEIR_KEEPALIVE_MS), args};
	uint8_t *table = calloc(1, BARE_TABLE_BYTES_MAX);
	grpc_init();
	grpc_server *server = grpc_server_create(&list, NULL);
	grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);
	grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
	grpc_server_register_completion_queue(server, cq, NULL);
	int port = grpc_server_add_http2_port(server, "127.0.0.1:0", credentials);
	grpc_server_credentials_release(credentials);
	grpc_server_start(server);
	int n = snprintf(address, sizeof address, "127.0.0.1:%d", port);
	if (!table || !port || write(address_fd, address, (size_t)n) != n)
		return EXIT_FAILURE;
	close(address_fd);
	while (serve_next(server, cq, table))
		;
	return EXIT_FAILURE;
}

/* --- The client */

struct bare_client {
	grpc_completion_queue *cq;
	grpc_channel *channel;
};

weir_status bare_client_open(struct bare_client **out, const char *address, weir_error *err)
{
	grpc_arg args[GRPC_ARGS_COMMON];
	grpc_channel_args list = {grpc_args_common(args, WEIR_KEEPALIVE_MS), args};
	struct bare_client *c = *out = calloc(1, sizeof *c);
	if (!c)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", address);
	grpc_init();
	grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
	c->cq = grpc_completion_queue_create_for_next(NULL);
	c->channel = grpc_channel_create(address, credentials, &list);
	grpc_channel_credentials_release(credentials);
	return WEIR_OK;
}

void bare_client_close(struct bare_client *c)
{
	if (!c)
		return;
	grpc_channel_destroy(c->channel);
	grpc_completion_queue_shutdown(c->cq);
	while (grpc_completion_queue_next(c->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type != GRPC_QUEUE_SHUTDOWN)
		;
	grpc_completion_queue_destroy(c->cq);
	free(c);
	grpc_shutdown_blocking();
}

/* Half-closes and waits until the server has finished. */
static bool finish(const struct bare_stream *s)
{
	grpc_metadata_array trailing;
	grpc_status_code status = GRPC_STATUS_UNKNOWN;
	grpc_slice details = grpc_empty_slice();
	grpc_metadata_array_init(&trailing);
	const grpc_op ops[] = {
	    {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
	    {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
	     .data.recv_status_on_client = {.trailing_metadata = &trailing, .status = &status, .status_details = &details}},
	};
	bool done = run_batch(s, ops, 2);
	grpc_slice_unref(details);
	grpc_metadata_array_destroy(&trailing);
	return done && status == GRPC_STATUS_OK;
}

weir_status bare_client_run(struct bare_client *c, const struct bare_order *order, uint8_t *memory, size_t memory_bytes,
                            weir_error *err)
{
	struct bare_stream s = {.cq = c->cq};
	grpc_metadata_array initial;
	grpc_metadata_array_init(&initial);
	s.call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->cq, grpc_slice_from_static_string("/bare"),
	                                  NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	const grpc_op open[] = {
	    {.op = GRPC_OP_SEND_INITIAL_METADATA},
	    {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &initial},
	};
	bool done = run_batch(&s, open, 2) && send_slice(&s, grpc_slice_from_copied_buffer((const char *)order, sizeof *order));
	if (done && order->work == BARE_COPY)
		done = receive_all(&s, order, copy, memory, memory_bytes);
	else if (done)
		done = send_all(&s, order, memory, memory_bytes);
	done = finish(&s) && done;
	grpc_call_unref(s.call);
	grpc_metadata_array_destroy(&initial);
	return done ? WEIR_OK : weir_fail(err, WEIR_E_UNAVAILABLE, "the stream of bare gRPC broke");
}
