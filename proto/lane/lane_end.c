#include "proto/lane/lane_end.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "proto/lane/lane_wire.h"

enum {
	STAGE_BYTES = 16 << 10, /* receives headers, small messages and the beginning of large ones */
	SPANS_PER_CALL = 64,
	FRAMES_MAX = 4, /* a message, an END, a STATUS and a BEAT */
	TURN_MESSAGES = 64,
	LINGER_MS = 1000, /* for a status to reach the client */
	FDS_MAX = 1 << 16
};

struct out_frame {
	uint8_t header[LANE_HEADER_BYTES];
	struct message *payload; /* may be NULL */
	bool is_message;
};

struct lane_end {
	struct lane_watch watch;
	struct lane_poll *poll;
	const struct lane_events *events;
	void *arg;
	bool is_server;
	/* Sending. */
	bool writable, sent_owed;
	struct out_frame frames[FRAMES_MAX]; /* ring */
	uint32_t first, frames_count;
	size_t sent_bytes; /* of the first frame */
	int64_t sent_ns;   /* when this side last sent a frame */
	/* Receiving. */
	bool readable, reading;
	bool taking; /* input is being taken: whoever asks for more need not come back */
	uint8_t stage[STAGE_BYTES];
	size_t stage_at, stage_end;
	struct message *in; /* arriving */
	uint8_t *to;
	struct lane_header in_header;
	size_t in_got;
	int64_t heard_ns;
	/* Ending. */
	bool ended, told;
	bool lost; /* the connection is of no more use */
	int64_t linger_until_ns;
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
};

/* The descriptors of all clients' ends in this process, a bit each. Higher ones are not noted. */
static atomic_ullong client_fds[FDS_MAX / 64];

static void note_client(int fd, bool is_client)
{
	if (fd >= FDS_MAX)
		return;
	const unsigned long long bit = 1ull << (fd % 64);
	if (is_client)
		atomic_fetch_or(&client_fds[fd / 64], bit);
	else
		atomic_fetch_and(&client_fds[fd / 64], ~bit);
}

bool lane_end_is_client(int fd)
{
	return fd >= 0 && fd < FDS_MAX && atomic_load(&client_fds[fd / 64]) >> (fd % 64) & 1;
}

static int64_t now_ns(void)
{
	return clock_ns(clock_system());
}

static void fail(struct lane_end *e, weir_status status, const char *text)
{
	e->lost = true;
	e->reading = false;
	if (e->ended)
		return;
	e->ended = true;
	e->status = status;
	snprintf(e->text, sizeof e->text, "%s", text);
}

static void gone(struct lane_end *e, const char *why)
{
	fail(e, e->is_server ? WEIR_E_CANCELLED : WEIR_E_UNAVAILABLE, why);
}

/* --- Sending */

static struct out_frame *frame_at(struct lane_end *e, uint32_t i)
{
	return &e->frames[(e->first + i) % FRAMES_MAX];
}

/* Takes the payload over. */
static void queue(struct lane_end *e, const struct lane_header *h, struct message *payload, bool is_message)
{
	assert(e->frames_count < FRAMES_MAX);
	struct out_frame *f = frame_at(e, e->frames_count++);
	*f = (struct out_frame){.payload = payload, .is_message = is_message};
	lane_put_header(f->header, h);
}

/* Appends the bytes from `skip` on of n bytes; `skip` becomes what is left of it. */
static size_t append(struct iovec *v, size_t count, const uint8_t *data, size_t n, size_t *skip)
{
	if (*skip >= n) {
		*skip -= n;
		return count;
	}
	v[count] = (struct iovec){.iov_base = (void *)(uintptr_t)(data + *skip), .iov_len = n - *skip};
	*skip = 0;
	return count + 1;
}

/* The rest of the first frame, or as much of it as one call may carry. */
static size_t gather(struct lane_end *e, struct iovec v[SPANS_PER_CALL])
{
	const struct out_frame *f = frame_at(e, 0);
	size_t skip = e->sent_bytes, n = append(v, 0, f->header, sizeof f->header, &skip);
	for (uint32_t i = 0; f->payload && i < f->payload->count && n < SPANS_PER_CALL; i++)
		n = append(v, n, f->payload->spans[i].data, f->payload->spans[i].size, &skip);
	return n;
}

static void drop_first(struct lane_end *e)
{
	struct out_frame *f = frame_at(e, 0);
	message_release(f->payload);
	*f = (struct out_frame){0};
	e->first = (e->first + 1) % FRAMES_MAX;
	e->frames_count--;
	e->sent_bytes = 0;
}

static void flush(struct lane_end *e)
{
	while (e->frames_count && e->writable && !e->lost) {
		struct iovec v[SPANS_PER_CALL];
		const struct msghdr m = {.msg_iov = v, .msg_iovlen = gather(e, v)};
		const ssize_t n = sendmsg(e->watch.fd, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			e->writable = false;
			return;
		}
		if (n < 0) {
			gone(e, strerror(errno));
			return;
		}
		const struct out_frame *f = frame_at(e, 0);
		e->sent_bytes += (size_t)n;
		if (e->sent_bytes < sizeof f->header + (f->payload ? f->payload->bytes : 0))
			continue;
		e->sent_ns = now_ns();
		e->sent_owed |= f->is_message;
		drop_first(e);
	}
}

static void flush_and_tell(struct lane_end *e)
{
	flush(e);
	if (e->sent_owed || e->lost)
		lane_poll_soon(e->poll, &e->watch);
}

void lane_end_send(struct lane_end *e, struct message *m)
{
	if (e->ended) {
		message_release(m);
		return;
	}
	queue(e, &(struct lane_header){.kind = LANE_DATA, .bytes = (uint32_t)m->bytes}, m, true);
	flush_and_tell(e);
}

void lane_end_half_close(struct lane_end *e)
{
	if (e->ended)
		return;
	queue(e, &(struct lane_header){.kind = LANE_END}, NULL, false);
	flush_and_tell(e);
}

/* --- Receiving */

static bool has_message(const struct lane_end *e)
{
	return e->in && e->in_got == e->in_header.bytes;
}

/* The payload of a frame that is not a message is in the stage. */
static void take_control(struct lane_end *e, const struct lane_header *h, const uint8_t *payload)
{
	if (h->kind == LANE_END) {
		e->events->half_closed(e->arg);
	} else if (h->kind == LANE_STATUS) {
		char text[LANE_TEXT_BYTES_MAX + 1];
		memcpy(text, payload, h->bytes);
		text[h->bytes] = 0;
		fail(e, (weir_status)h->value, text);
	}
}

/* Takes the next frame's header from the stage, with the payload of a control frame. False: more
 * bytes are needed, or the lane has ended. */
static bool take_header(struct lane_end *e)
{
	struct lane_header h;
	weir_error err = {0};
	const size_t left = e->stage_end - e->stage_at;
	if (left < LANE_HEADER_BYTES)
		return false;
	if (lane_get_header(e->stage + e->stage_at, !e->is_server, &h, &err)) {
		fail(e, err.status, err.text);
		return false;
	}
	if (h.kind != LANE_DATA) {
		if (left < LANE_HEADER_BYTES + h.bytes)
			return false;
		const uint8_t *payload = e->stage + e->stage_at + LANE_HEADER_BYTES;
		e->stage_at += LANE_HEADER_BYTES + h.bytes;
		take_control(e, &h, payload);
		return !e->ended;
	}
	e->stage_at += LANE_HEADER_BYTES;
	e->in = message_alloc(h.bytes, &e->to);
	if (!e->in) {
		lane_end_finish(e, WEIR_E_MEMORY, "out of memory for a message");
		return false;
	}
	e->in_header = h;
	e->in_got = 0;
	return true;
}

static void take_from_stage(struct lane_end *e)
{
	const size_t left = e->stage_end - e->stage_at, wanted = e->in_header.bytes - e->in_got, n = left < wanted ? left : wanted;
	memcpy(e->to + e->in_got, e->stage + e->stage_at, n);
	e->in_got += n;
	e->stage_at += n;
}

/* Reads the rest of the arriving message, and what follows it into the stage. */
static void receive(struct lane_end *e)
{
	memmove(e->stage, e->stage + e->stage_at, e->stage_end - e->stage_at);
	e->stage_end -= e->stage_at;
	e->stage_at = 0;
	const size_t wanted = e->in ? e->in_header.bytes - e->in_got : 0, room = STAGE_BYTES - e->stage_end;
	const struct iovec v[] = {{.iov_base = e->in ? e->to + e->in_got : e->stage, .iov_len = wanted},
	                          {.iov_base = e->stage + e->stage_end, .iov_len = room}};
	const ssize_t n = readv(e->watch.fd, v, 2);
	if (n < 0 && errno == EINTR)
		return;
	if (n < 0 && errno == EAGAIN) {
		e->readable = false;
		return;
	}
	if (n <= 0) {
		gone(e, n ? strerror(errno) : e->is_server ? "the client is gone" : "the connection was lost");
		return;
	}
	const size_t got = (size_t)n, direct = got < wanted ? got : wanted;
	e->in_got += direct;
	e->stage_end += got - direct;
	e->heard_ns = now_ns();
}

static void deliver(struct lane_end *e)
{
	struct message *m = e->in;
	e->in = NULL;
	e->reading = false;
	e->events->message(e->arg, m);
	message_release(m);
}

/* Receives as long as the owner wants more, but lets others have a turn, and tells first what has
 * been sent: an answer to a message never comes before `sent`. */
static void take_input(struct lane_end *e)
{
	int messages = 0;
	e->taking = true;
	while (e->reading && !e->ended && !e->sent_owed && messages < TURN_MESSAGES) {
		if (!e->in && take_header(e) && !e->in)
			continue; /* a control frame */
		if (e->in)
			take_from_stage(e);
		if (has_message(e)) {
			deliver(e);
			messages++;
		} else if (e->readable && !e->ended) {
			receive(e);
		} else {
			break;
		}
	}
	e->taking = false;
	if (messages == TURN_MESSAGES)
		lane_poll_soon(e->poll, &e->watch);
}

void lane_end_read(struct lane_end *e)
{
	if (e->ended || e->reading)
		return;
	e->reading = true;
	e->heard_ns = now_ns();
	if (!e->taking)
		lane_poll_soon(e->poll, &e->watch);
}

/* --- Ending */

static void destroy(struct lane_end *e)
{
	while (e->frames_count)
		drop_first(e);
	message_release(e->in);
	if (!e->is_server)
		note_client(e->watch.fd, false);
	close(e->watch.fd);
	free(e);
}

void lane_end_finish(struct lane_end *e, weir_status status, const char *text)
{
	if (e->ended)
		return;
	e->ended = true;
	e->reading = false;
	e->status = status;
	snprintf(e->text, sizeof e->text, "%s", text);
	lane_poll_soon(e->poll, &e->watch);
	if (!e->is_server) {
		e->lost = true;
		return;
	}
	/* a message of which nothing has been sent is dropped */
	while (e->frames_count && e->sent_bytes == 0)
		drop_first(e);
	struct message *said = message_copy(e->text, strlen(e->text));
	queue(e, &(struct lane_header){.kind = LANE_STATUS, .bytes = said ? (uint32_t)said->bytes : 0, .value = (uint32_t)status},
	      said, false);
	flush(e);
	e->linger_until_ns = now_ns() + LINGER_MS * INT64_C(1000000);
}

/* Discards what the client still sends: closing with unread bytes would take the status back. */
static void linger(struct lane_end *e)
{
	flush(e);
	if (!e->frames_count)
		(void)shutdown(e->watch.fd, SHUT_WR);
	while (!e->lost) {
		const ssize_t n = read(e->watch.fd, e->stage, sizeof e->stage);
		if (n < 0 && errno == EAGAIN)
			return;
		e->lost = n == 0 || (n < 0 && errno != EINTR);
	}
}

/* Reports the end, and frees the end of a connection that is lost. */
static void settle(struct lane_end *e)
{
	if (!e->ended)
		return;
	if (!e->told) {
		e->told = true;
		e->events->closed(e->arg, e->status, e->text);
	}
	if (!e->lost)
		linger(e);
	if (e->lost) {
		lane_poll_remove(e->poll, &e->watch);
		destroy(e);
	}
}

static struct lane_end *end_of(struct lane_watch *w)
{
	return (struct lane_end *)(void *)((char *)w - offsetof(struct lane_end, watch));
}

static void ready(struct lane_watch *w, uint32_t events)
{
	struct lane_end *e = end_of(w);
	e->readable |= events != 0;
	e->writable |= events != 0;
	if (!e->ended)
		flush(e);
	while (e->sent_owed && !e->ended) {
		e->sent_owed = false;
		e->events->sent(e->arg); /* may send the next one */
	}
	take_input(e);
	settle(e);
}

static void tick(struct lane_watch *w, int64_t now, bool slept)
{
	struct lane_end *e = end_of(w);
	if (slept)
		e->heard_ns = now;
	if (e->ended) {
		e->lost |= now > e->linger_until_ns;
	} else if (e->reading && now - e->heard_ns > WEIR_DEAD_PEER_MS * INT64_C(1000000)) {
		gone(e, "the peer is silent");
	} else if (!e->frames_count && now - e->sent_ns > (WEIR_KEEPALIVE_MS - LANE_TICK_MS) * INT64_C(1000000)) {
		queue(e, &(struct lane_header){.kind = LANE_BEAT}, NULL, false);
		flush(e);
	}
	settle(e);
}

static void drop(struct lane_watch *w)
{
	destroy(end_of(w));
}

struct lane_end *lane_end_create(struct lane_poll *poll, int fd, bool is_server, const struct lane_events *events, void *arg,
                                 weir_error *err)
{
	struct lane_end *e = calloc(1, sizeof *e);
	if (e) {
		*e = (struct lane_end){.watch = {.ready = ready, .tick = tick, .drop = drop, .fd = fd},
		                       .poll = poll,
		                       .events = events,
		                       .arg = arg,
		                       .is_server = is_server,
		                       .writable = true,
		                       .reading = true};
		e->sent_ns = e->heard_ns = now_ns();
		if (lane_poll_add(poll, &e->watch)) {
			if (!is_server)
				note_client(fd, true);
			return e;
		}
	}
	weir_fail(err, e ? WEIR_E_LIMIT : WEIR_E_MEMORY, "cannot take over a lane: %s", strerror(errno));
	close(fd);
	free(e);
	return NULL;
}
