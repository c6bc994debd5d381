#include "tests/unit/server/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/deadline.h"

#define WAIT_MS 20000

static void add_answer(struct client *c, const struct record *r, struct cursor body)
{
	struct answer a = {.record = *r};
	if (r->sections) {
		struct section s;
		assert_int_equal(frame_next_section(&body, &s, NULL), WEIR_OK);
		a.bytes = s.data_bytes;
		a.data = malloc(s.data_bytes + 1);
		a.data[s.data_bytes] = '\0';
		assert_int_equal(cursor_read(&s.data, a.data, s.data_bytes), WEIR_OK);
	}
	c->answers = realloc(c->answers, (c->answers_count + 1) * sizeof *c->answers);
	c->answers[c->answers_count++] = a;
}

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)stream;
	struct client *c = arg;
	struct cursor at;
	struct frame_header h;
	assert_int_equal(wire_unwrap_frame(m, &at, NULL), WEIR_OK);
	assert_int_equal(frame_open(&at, &h, NULL), WEIR_OK);
	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; i < h.records; i++) {
		struct record r;
		struct cursor body;
		assert_int_equal(frame_next_record(&at, true, &r, &body, NULL), WEIR_OK);
		add_answer(c, &r, body);
	}
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)stream;
	struct client *c = arg;
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	c->status = status;
	strncpy(c->text, text, sizeof c->text - 1);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

void client_reopen(struct client *c, enum rpc_method stream)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .closed = on_closed};
	weir_error err = {0};
	c->closed = false;
	c->text[0] = '\0';
	if (rpc_stream_open(&c->stream, c->channel, stream, &handler, c, &err))
		fail_msg("%s", err.text);
}

void client_open(struct client *c, struct rpc *rpc, const char *address, enum rpc_method stream)
{
	weir_error err = {0};
	*c = (struct client){0};
	pthread_mutex_init(&c->lock, NULL);
	deadline_cond_init(&c->changed);
	c->loop = rpc_loop_create(rpc, "client", &err);
	assert_non_null(c->loop);
	if (rpc_channel_open(&c->channel, rpc, c->loop, address, &err))
		fail_msg("%s", err.text);
	client_reopen(c, stream);
}

void client_close(struct client *c)
{
	rpc_channel_close(c->channel);
	rpc_loop_destroy(c->loop);
	for (uint32_t i = 0; i < c->answers_count; i++)
		free(c->answers[i].data);
	free(c->answers);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->changed);
}

struct posted {
	struct client *client;
	struct message *message;
	bool pause;
};

static struct posted *posted(struct client *c)
{
	struct posted *p = calloc(1, sizeof *p);
	p->client = c;
	return p;
}

static void send_posted(void *arg)
{
	struct posted *p = arg;
	pthread_mutex_lock(&p->client->lock);
	bool closed = p->client->closed;
	pthread_mutex_unlock(&p->client->lock);
	if (closed)
		message_release(p->message);
	else
		(void)rpc_stream_send(p->client->stream, p->message);
	free(p);
}

void client_send(struct client *c, struct message *frame)
{
	struct posted *p = posted(c);
	p->message = wire_wrap_frame(frame);
	assert_non_null(p->message);
	rpc_loop_post(c->loop, send_posted, p);
}

static void pause_posted(void *arg)
{
	struct posted *p = arg;
	if (p->pause)
		rpc_stream_pause(p->client->stream);
	else
		rpc_stream_resume(p->client->stream);
	free(p);
}

void client_pause(struct client *c, bool pause)
{
	struct posted *p = posted(c);
	p->pause = pause;
	rpc_loop_post(c->loop, pause_posted, p);
}

static bool wait_changed(struct client *c)
{
	return deadline_wait(&c->changed, &c->lock, deadline_after_ms(WAIT_MS));
}

void client_wait(struct client *c, uint32_t count)
{
	bool late = false;
	pthread_mutex_lock(&c->lock);
	while (c->answers_count < count && !c->closed && !late)
		late = !wait_changed(c);
	uint32_t have = c->answers_count;
	pthread_mutex_unlock(&c->lock);
	if (have < count)
		fail_msg("%u answers of %u; closed %d: %s %s", have, count, c->closed, weir_status_name(c->status), c->text);
}

uint32_t client_answers(struct client *c)
{
	pthread_mutex_lock(&c->lock);
	uint32_t count = c->answers_count;
	pthread_mutex_unlock(&c->lock);
	return count;
}

weir_status client_wait_closed(struct client *c)
{
	bool late = false;
	pthread_mutex_lock(&c->lock);
	while (!c->closed && !late)
		late = !wait_changed(c);
	weir_status status = c->status;
	pthread_mutex_unlock(&c->lock);
	assert_false(late);
	return status;
}

const struct answer *client_answer(struct client *c, uint64_t request_id, uint32_t partition)
{
	const struct answer *found = NULL;
	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; i < c->answers_count && !found; i++) {
		const struct record *r = &c->answers[i].record;
		if (r->request_id == request_id && (partition == FRAME_PARTITION_ALL || r->partition == partition))
			found = &c->answers[i];
	}
	pthread_mutex_unlock(&c->lock);
	if (!found)
		fail_msg("no answer to request %llu of partition %u", (unsigned long long)request_id, partition);
	return found;
}

weir_status client_call(struct client *c, enum rpc_method method, const ProtobufCMessage *request,
                        const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	struct message *m;
	weir_status status = rpc_call_wait(c->channel, method, wire_pack(request), 5000, &m, err);
	if (status)
		return status;
	if (reply)
		status = wire_unpack(type, m, reply, err);
	message_release(m);
	return status;
}
