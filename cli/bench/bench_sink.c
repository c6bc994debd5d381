/* Servers in child processes, and the protocol alone: frames of push records over one stream to a
 * process that answers and discards them. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench/bench_net.h"
#include "proto/frame/frame.h"
#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"

enum { SINK_SOURCE_BYTES = 64 << 20, SINK_READY_MS = 10000 };

/* --- The discarding side */

struct sink_state {
	bool verify;
	struct record_writer *writer; /* belongs to the loop of the single stream */
};

static void sink_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct sink_state *s = arg;
	struct cursor frame, body;
	struct frame_header header;
	struct record r;
	weir_error err = {0};
	weir_status status = wire_unwrap_frame(m, &frame, &err);
	if (status == WEIR_OK)
		status = frame_open(&frame, &header, &err);
	for (uint32_t i = 0; status == WEIR_OK && i < header.records; i++) {
		status = frame_next_record(&frame, s->verify, &r, &body, &err);
		struct record reply = {.kind = RECORD_PUSH_REPLY, .partition = r.partition, .request_id = r.request_id};
		record_writer_begin(s->writer, &reply);
		if (status == WEIR_OK)
			status = record_writer_end(s->writer);
	}
	struct message *out = status == WEIR_OK ? record_writer_finish(s->writer, header.uuid, header.generation, NULL, NULL) : NULL;
	struct message *data = out ? wire_wrap_frame(out) : NULL;
	if (!data || rpc_stream_send(stream, data) != WEIR_OK)
		rpc_stream_cancel(stream, WEIR_E_CORRUPT, err.text);
}

static void sink_unary(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	(void)ctx, (void)method, (void)request;
	rpc_call_reply(call, WEIR_E_UNSUPPORTED, "this server only discards pushes", NULL);
}

static void sink_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)arg, (void)stream, (void)status, (void)text;
}

static const struct rpc_stream_handler *sink_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = sink_message, .closed = sink_closed};
	(void)stream, (void)method;
	*arg = ctx;
	return &handler;
}

/* Runs in the child. Returns only on failure. */
static int sink_serve(bool verify, int address_fd)
{
	static const struct rpc_service service = {.unary = sink_unary, .stream_open = sink_open};
	struct sink_state state = {.verify = verify, .writer = record_writer_create()};
	struct rpc *rpc = rpc_grpc_create(NULL);
	struct rpc_loop *loop = rpc ? rpc_loop_create(rpc, "sink", NULL) : NULL;
	struct rpc_server *server = NULL;
	if (!state.writer || !loop || rpc_server_start(&server, rpc, "127.0.0.1:0", &loop, 1, &service, &state, NULL) != WEIR_OK)
		return EXIT_FAILURE;
	const char *address = rpc_server_address(server);
	if (write(address_fd, address, strlen(address)) != (ssize_t)strlen(address))
		return EXIT_FAILURE;
	close(address_fd);
	for (;;) /* until killed; there is nothing to lose */
		pause();
}

int bench_discard_checked(int address_fd)
{
	return sink_serve(true, address_fd);
}

int bench_discard_unchecked(int address_fd)
{
	return sink_serve(false, address_fd);
}

weir_status bench_sink_start(struct bench_sink *s, int (*serve)(int address_fd), weir_error *err)
{
	int fds[2];
	*s = (struct bench_sink){0};
	if (pipe(fds) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot make a pipe: %s", strerror(errno));
	s->pid = fork();
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		_exit(serve(fds[1]));
	}
	close(fds[1]);
	struct pollfd p = {.fd = fds[0], .events = POLLIN};
	bool ready = s->pid > 0 && poll(&p, 1, SINK_READY_MS) == 1 && read(fds[0], s->address, sizeof s->address - 1) > 0;
	close(fds[0]);
	return ready ? WEIR_OK : weir_fail(err, WEIR_E_UNAVAILABLE, "the server of the benchmark did not start");
}

void bench_sink_stop(struct bench_sink *s)
{
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
	*s = (struct bench_sink){0};
}

/* --- The sending side. Everything except `lock`, `change` and `ended` belongs to the loop. */

struct bench_pusher {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct rpc_channel *channel;
	struct rpc_stream *stream;
	struct record_writer *writer;
	float *source; /* (SINK_SOURCE_BYTES / 4) */
	size_t record_bytes, to_send, sent, acknowledged;
	uint64_t next_id;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool ended;       /* under lock: all is acknowledged, or the run failed */
	weir_error error; /* under lock */
};

static void end_run(struct bench_pusher *p, weir_status status, const char *text)
{
	pthread_mutex_lock(&p->lock);
	if (status != WEIR_OK && p->error.status == WEIR_OK)
		weir_fail(&p->error, status, "%s", text);
	p->ended = true;
	pthread_cond_signal(&p->change);
	pthread_mutex_unlock(&p->lock);
}

static weir_status add_record(struct bench_pusher *p)
{
	static const size_t row_bytes = WEIR_CHUNK * sizeof(float);
	size_t at = p->sent % SINK_SOURCE_BYTES;
	struct record r = {.kind = RECORD_PUSH, .request_id = ++p->next_id};
	record_writer_begin(p->writer, &r);
	for (size_t done = 0; done < p->record_bytes; done += row_bytes) {
		size_t bytes = p->record_bytes - done < row_bytes ? p->record_bytes - done : row_bytes;
		struct section s = {.codec = WEIR_CODEC_FP32,
		                    .index_codec = INDEX_ALL,
		                    .rows = 1,
		                    .width = (uint32_t)(bytes / sizeof(float)),
		                    .data_bytes = (uint32_t)bytes};
		weir_status status = record_writer_add(p->writer, &s, NULL, (const uint8_t *)p->source + at + done, true);
		if (status != WEIR_OK)
			return status;
	}
	p->sent += p->record_bytes;
	return record_writer_end(p->writer);
}

/* Sends as far ahead as libweir does, in frames of up to a message's target size. */
static void fill_credit(struct bench_pusher *p)
{
	static const uint8_t uuid[16] = {0};
	while (p->sent < p->to_send && p->sent + p->record_bytes - p->acknowledged <= WEIR_PUSH_AHEAD_BYTES) {
		weir_status status = WEIR_OK;
		do
			status = add_record(p);
		while (status == WEIR_OK && p->sent < p->to_send &&
		       record_writer_bytes(p->writer) + p->record_bytes <= WEIR_MESSAGE_BYTES_TARGET &&
		       p->sent + p->record_bytes - p->acknowledged <= WEIR_PUSH_AHEAD_BYTES);
		struct message *frame = status == WEIR_OK ? record_writer_finish(p->writer, uuid, 0, NULL, NULL) : NULL;
		struct message *data = frame ? wire_wrap_frame(frame) : NULL;
		if (!data || rpc_stream_send(p->stream, data) != WEIR_OK) {
			end_run(p, WEIR_E_INTERNAL, "a push could not be sent");
			return;
		}
	}
}

static void on_replies(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)stream;
	struct bench_pusher *p = arg;
	struct cursor frame;
	struct frame_header header;
	weir_error err = {0};
	if (wire_unwrap_frame(m, &frame, &err) != WEIR_OK || frame_open(&frame, &header, &err) != WEIR_OK) {
		end_run(p, err.status, err.text);
		return;
	}
	p->acknowledged += header.records * p->record_bytes;
	if (p->acknowledged >= p->to_send)
		end_run(p, WEIR_OK, "");
	else
		fill_credit(p);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)stream;
	struct bench_pusher *p = arg;
	p->stream = NULL;
	end_run(p, status == WEIR_OK ? WEIR_E_CLOSED : status, text);
}

static void begin_run(void *arg)
{
	static const struct rpc_stream_handler handler = {.message = on_replies, .closed = on_closed};
	struct bench_pusher *p = arg;
	weir_error err = {0};
	if (!p->stream && rpc_stream_open(&p->stream, p->channel, RPC_PUSH_STREAM, &handler, p, &err) != WEIR_OK) {
		end_run(p, err.status, err.text);
		return;
	}
	fill_credit(p);
}

double bench_pusher_run(struct bench_pusher *p, size_t record_bytes, size_t bytes, weir_error *err)
{
	p->record_bytes = record_bytes;
	p->to_send = bytes / record_bytes * record_bytes;
	p->sent = p->acknowledged = 0;
	p->ended = false;
	double start = bench_now_s();
	rpc_loop_post(p->loop, begin_run, p);
	pthread_mutex_lock(&p->lock);
	while (!p->ended)
		pthread_cond_wait(&p->change, &p->lock);
	pthread_mutex_unlock(&p->lock);
	if (p->error.status != WEIR_OK) {
		*err = p->error;
		return -1;
	}
	return (double)p->to_send / (bench_now_s() - start);
}

weir_status bench_pusher_open(struct bench_pusher **out, const char *address, weir_error *err)
{
	struct bench_pusher *p = calloc(1, sizeof *p);
	if (!p)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a client");
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->change, NULL);
	p->source = aligned_alloc(4096, SINK_SOURCE_BYTES);
	p->writer = record_writer_create();
	p->rpc = rpc_grpc_create(NULL);
	p->loop = p->rpc ? rpc_loop_create(p->rpc, "pusher", err) : NULL;
	weir_status status = p->source && p->writer && p->loop ? rpc_channel_open(&p->channel, p->rpc, p->loop, address, err)
	                                                       : weir_fail(err, WEIR_E_MEMORY, "no memory for a client");
	if (status != WEIR_OK) {
		bench_pusher_close(p);
		return status;
	}
	memset(p->source, 0, SINK_SOURCE_BYTES);
	*out = p;
	return WEIR_OK;
}

void bench_pusher_close(struct bench_pusher *p)
{
	if (!p)
		return;
	if (p->channel)
		rpc_channel_close(p->channel);
	if (p->loop)
		rpc_loop_destroy(p->loop);
	if (p->rpc)
		rpc_destroy(p->rpc);
	record_writer_destroy(p->writer);
	free(p->source);
	pthread_cond_destroy(&p->change);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
