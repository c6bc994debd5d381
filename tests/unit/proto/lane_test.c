/* One end of a lane and its listener, beside peers that a test writes byte by byte. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "proto/lane/lane_dial.h"
#include "proto/lane/lane_end.h"
#include "proto/lane/lane_listen.h"
#include "proto/lane/lane_wire.h"
#include "tests/cmocka_check.h"

enum { MESSAGES_MAX = 16 };

struct lane {
	struct lane_poll *poll;
	struct lane_end *end;
	int peer; /* the test's own side */
	bool stops_reading;
	uint32_t sent, messages, half_closed, closed;
	size_t sizes[MESSAGES_MAX];
	uint8_t first[MESSAGES_MAX]; /* byte of each message */
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
};

static void on_sent(void *arg)
{
	((struct lane *)arg)->sent++;
}

static void on_message(void *arg, struct message *m)
{
	struct lane *l = arg;
	assert_true(l->messages < MESSAGES_MAX);
	l->sizes[l->messages] = m->bytes;
	l->first[l->messages++] = m->bytes ? m->spans[0].data[0] : 0;
	if (!l->stops_reading)
		lane_end_read(l->end);
}

static void on_half_closed(void *arg)
{
	((struct lane *)arg)->half_closed++;
}

static void on_closed(void *arg, weir_status status, const char *text)
{
	struct lane *l = arg;
	l->closed++;
	l->status = status;
	snprintf(l->text, sizeof l->text, "%s", text);
}

static void lane_open(struct lane *l, bool is_server)
{
	static const struct lane_events events = {on_sent, on_message, on_half_closed, on_closed};
	int fds[2];
	weir_error err = {0};
	*l = (struct lane){.poll = lane_poll_create(&err)};
	assert_non_null(l->poll);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	l->peer = fds[1];
	l->end = lane_end_create(l->poll, fds[0], is_server, &events, l, &err);
	assert_non_null(l->end);
}

static void lane_close(struct lane *l)
{
	if (l->peer >= 0)
		close(l->peer);
	lane_poll_destroy(l->poll);
}

static void turn(struct lane *l)
{
	for (int i = 0; i < 4; i++)
		lane_poll_wait(l->poll, 0);
}

static void put(struct lane *l, const void *bytes, size_t n)
{
	assert_int_equal(send(l->peer, bytes, n, MSG_NOSIGNAL), n);
}

static void put_frame(struct lane *l, enum lane_kind kind, uint32_t bytes, uint32_t value)
{
	uint8_t header[LANE_HEADER_BYTES];
	lane_put_header(header, &(struct lane_header){.kind = kind, .bytes = bytes, .value = value});
	put(l, header, sizeof header);
}

static void get(struct lane *l, void *bytes, size_t n)
{
	for (size_t got = 0; got < n;) {
		turn(l);
		const ssize_t r = recv(l->peer, (uint8_t *)bytes + got, n - got, MSG_DONTWAIT);
		if (r > 0)
			got += (size_t)r;
		else
			assert_true(r < 0 && errno == EAGAIN);
	}
}

static struct lane_header get_header(struct lane *l, bool from_server)
{
	uint8_t header[LANE_HEADER_BYTES];
	struct lane_header h;
	weir_error err = {0};
	get(l, header, sizeof header);
	CHECK_OK(lane_get_header(header, from_server, &h, &err), err);
	return h;
}

/* However the stream is cut: byte by byte, across headers, or all at once. */
static void messages_arrive_in_any_pieces(void **state)
{
	(void)state;
	static uint8_t stream[3 * LANE_HEADER_BYTES + 40000 + 3];
	size_t at = 0;
	const uint32_t sizes[] = {3, 0, 40000};
	for (int i = 0; i < 3; i++) {
		lane_put_header(stream + at, &(struct lane_header){.kind = LANE_DATA, .bytes = sizes[i]});
		at += LANE_HEADER_BYTES;
		memset(stream + at, 7 + i, sizes[i]);
		at += sizes[i];
	}
	for (size_t piece = 1; piece < sizeof stream; piece = piece * 5 + 2) {
		struct lane l;
		lane_open(&l, true);
		for (size_t sent = 0; sent < sizeof stream; sent += piece) {
			put(&l, stream + sent, piece < sizeof stream - sent ? piece : sizeof stream - sent);
			turn(&l);
		}
		assert_int_equal(l.messages, 3);
		for (int i = 0; i < 3; i++)
			assert_int_equal(l.sizes[i], sizes[i]);
		assert_int_equal(l.first[0], 7);
		assert_int_equal(l.first[2], 9);
		lane_close(&l);
	}
}

/* The kernel takes a large message in parts; `sent` comes once, after the last one. */
static void large_messages_leave_in_parts(void **state)
{
	(void)state;
	enum { BYTES = 3 << 20 };
	struct lane l;
	uint8_t *data, *back = malloc(BYTES);
	struct message *m = message_alloc(BYTES, &data);
	assert_true(m && back);
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 31 >> 3);
	lane_open(&l, false);
	lane_end_send(l.end, message_retain(m));
	turn(&l);
	assert_int_equal(l.sent, 0);
	const struct lane_header h = get_header(&l, false);
	assert_int_equal(h.kind, LANE_DATA);
	assert_int_equal(h.bytes, BYTES);
	get(&l, back, BYTES);
	turn(&l);
	assert_int_equal(l.sent, 1);
	assert_memory_equal(back, data, BYTES);
	message_release(m);
	free(back);
	lane_close(&l);
}

static void nothing_is_read_unasked(void **state)
{
	(void)state;
	struct lane l;
	lane_open(&l, true);
	l.stops_reading = true;
	for (int i = 0; i < 3; i++)
		put_frame(&l, LANE_DATA, 0, 0);
	put_frame(&l, LANE_END, 0, 0);
	turn(&l);
	assert_int_equal(l.messages, 1);
	lane_end_read(l.end);
	turn(&l);
	assert_int_equal(l.messages, 2);
	assert_int_equal(l.half_closed, 0);
	l.stops_reading = false;
	lane_end_read(l.end);
	turn(&l);
	assert_int_equal(l.messages, 3);
	assert_int_equal(l.half_closed, 1);
	lane_close(&l);
}

static void expect_end(struct lane *l, weir_status status, const char *text)
{
	turn(l);
	assert_int_equal(l->closed, 1);
	assert_int_equal(l->status, status);
	assert_non_null(strstr(l->text, text));
	lane_close(l);
}

static void bad_frames_end_a_lane(void **state)
{
	(void)state;
	struct lane l;
	uint8_t header[LANE_HEADER_BYTES];
	lane_open(&l, true);
	lane_put_header(header, &(struct lane_header){.kind = LANE_DATA, .bytes = 1});
	header[4] ^= 1;
	put(&l, header, sizeof header);
	expect_end(&l, WEIR_E_CORRUPT, "checksum");
	lane_open(&l, true);
	put_frame(&l, LANE_DATA, WEIR_MESSAGE_BYTES_MAX + 1, 0);
	expect_end(&l, WEIR_E_LIMIT, "at most");
	lane_open(&l, true);
	put_frame(&l, 9, 0, 0);
	expect_end(&l, WEIR_E_CORRUPT, "the kind 9");
	lane_open(&l, true); /* a client tells no status */
	put_frame(&l, LANE_STATUS, 0, 0);
	expect_end(&l, WEIR_E_CORRUPT, "the kind 4");
	lane_open(&l, false);
	put_frame(&l, LANE_END, 0, 0);
	expect_end(&l, WEIR_E_CORRUPT, "the kind 3");
	lane_open(&l, false);
	put_frame(&l, LANE_STATUS, 0, 200);
	expect_end(&l, WEIR_E_CORRUPT, "the status 200");
	lane_open(&l, false);
	put_frame(&l, LANE_BEAT, 1, 0);
	expect_end(&l, WEIR_E_LIMIT, "at most 0");
}

static void a_peer_that_is_gone(void **state)
{
	(void)state;
	struct lane l;
	for (int is_server = 0; is_server < 2; is_server++) {
		lane_open(&l, is_server);
		put_frame(&l, LANE_DATA, 100, 0);
		put(&l, "half", 4);
		turn(&l);
		close(l.peer);
		l.peer = -1;
		expect_end(&l, is_server ? WEIR_E_CANCELLED : WEIR_E_UNAVAILABLE, is_server ? "the client is gone" : "was lost");
	}
}

static void a_status_travels(void **state)
{
	(void)state;
	struct lane l;
	char text[16] = "";
	lane_open(&l, true);
	put(&l, "unread", 6);
	lane_end_finish(l.end, WEIR_E_STALE, "too late");
	const struct lane_header h = get_header(&l, true);
	assert_int_equal(h.kind, LANE_STATUS);
	assert_int_equal(h.value, WEIR_E_STALE);
	assert_int_equal(h.bytes, 8);
	get(&l, text, 8);
	assert_string_equal(text, "too late");
	expect_end(&l, WEIR_E_STALE, "too late");
	lane_open(&l, false);
	put_frame(&l, LANE_STATUS, 3, WEIR_E_BUSY);
	put(&l, "now", 3);
	expect_end(&l, WEIR_E_BUSY, "now");
}

/* A live peer sends beats. */
static void a_silent_peer_is_dead(void **state)
{
	(void)state;
	struct lane l;
	lane_open(&l, true);
	const struct clock *clock = clock_system();
	const int64_t began_ms = clock_ms(clock);
	while (!l.closed && clock_ms(clock) - began_ms < 3 * (int64_t)WEIR_DEAD_PEER_MS)
		lane_poll_wait(l.poll, 100000000);
	const int64_t took_ms = clock_ms(clock) - began_ms;
	assert_true(took_ms >= (int64_t)WEIR_DEAD_PEER_MS - 10);
	struct lane_header h = get_header(&l, true);
	assert_int_equal(h.kind, LANE_BEAT);
	expect_end(&l, WEIR_E_CANCELLED, "silent");
}

/* --- The listener */

struct house {
	struct lane_poll *poll;
	struct lane_listener *listener;
	char folder[64], path[128];
	int fd; /* of the last lane that arrived; -1: none */
	unsigned arrived, method;
};

static void on_arrived(void *arg, int fd, const struct lane_ticket *ticket)
{
	struct house *h = arg;
	if (h->fd >= 0)
		close(h->fd);
	h->fd = fd;
	h->arrived++;
	h->method = ticket->method;
}

static void house_open(struct house *h)
{
	weir_error err = {0};
	*h = (struct house){.poll = lane_poll_create(&err), .folder = "/tmp/weir-lane-XXXXXX", .fd = -1};
	assert_non_null(h->poll);
	assert_non_null(mkdtemp(h->folder));
	snprintf(h->path, sizeof h->path, "unix:%s/s", h->folder);
	const struct lane_listener_options options = {.address = h->path, .arrived = on_arrived, .arg = h};
	CHECK_OK(lane_listener_create(&h->listener, &options, &err), err);
	CHECK_OK(lane_listener_start(h->listener, h->poll, &err), err);
}

static void house_close(struct house *h)
{
	if (h->fd >= 0)
		close(h->fd);
	lane_listener_stop(h->listener);
	lane_listener_destroy(h->listener);
	lane_poll_destroy(h->poll);
	assert_int_equal(rmdir(h->folder), 0);
}

static struct sockaddr_un address_of(const struct house *h)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path, sizeof at.sun_path, "%s" LANE_SOCKET_ENDING, h->path + 5);
	return at;
}

static int visit(const struct house *h)
{
	const struct sockaddr_un at = address_of(h);
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
	return fd;
}

/* Whether the listener hangs up on a visitor that shows these bytes. */
static bool is_refused(struct house *h, const uint8_t *bytes, size_t n)
{
	char answer;
	const int fd = visit(h);
	const unsigned before = h->arrived;
	assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
	for (int i = 0; i < 4; i++)
		lane_poll_wait(h->poll, 0);
	const ssize_t got = recv(fd, &answer, 1, MSG_DONTWAIT);
	const bool refused = (got == 0 || (got < 0 && errno != EAGAIN)) && h->arrived == before;
	close(fd);
	return refused;
}

static void a_ticket_opens_one_lane(void **state)
{
	(void)state;
	struct house h;
	const struct lane_ticket ticket = {.method = 5, .address = "unix"}, elsewhere = {.address = "10.0.0.1"};
	uint8_t token[LANE_TOKEN_BYTES], greeting[LANE_GREETING_BYTES], answer[LANE_GREETING_BYTES];
	house_open(&h);
	assert_int_equal(lane_listener_issue(h.listener, &ticket, token), WEIR_OK);
	lane_put_greeting(greeting, token);
	greeting[9] ^= 1;
	assert_true(is_refused(&h, greeting, sizeof greeting)); /* its checksum is wrong */
	token[0] ^= 1;
	lane_put_greeting(greeting, token);
	assert_true(is_refused(&h, greeting, sizeof greeting)); /* nobody's ticket */
	token[0] ^= 1;
	lane_put_greeting(greeting, token);
	const int fd = visit(&h);
	assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
	for (int i = 0; i < 4; i++)
		lane_poll_wait(h.poll, 0);
	assert_int_equal(h.arrived, 1);
	assert_int_equal(h.method, 5);
	assert_int_equal(recv(fd, answer, sizeof answer, 0), sizeof answer);
	assert_memory_equal(answer, greeting, sizeof answer);
	assert_true(is_refused(&h, greeting, sizeof greeting)); /* a second time */
	assert_int_equal(lane_listener_issue(h.listener, &elsewhere, token), WEIR_OK);
	lane_put_greeting(greeting, token);
	assert_true(is_refused(&h, greeting, sizeof greeting)); /* of another machine */
	close(fd);
	house_close(&h);
}

static void tickets_and_visitors_are_bounded(void **state)
{
	(void)state;
	struct house h;
	int fds[WEIR_LANE_VISITORS_MAX + 8];
	const struct lane_ticket ticket = {.address = "unix"};
	uint8_t token[LANE_TOKEN_BYTES];
	char answer;
	house_open(&h);
	for (uint32_t i = 0; i < WEIR_LANE_TICKETS_MAX; i++)
		assert_int_equal(lane_listener_issue(h.listener, &ticket, token), WEIR_OK);
	assert_int_equal(lane_listener_issue(h.listener, &ticket, token), WEIR_E_BUSY);
	for (uint32_t i = 0; i < WEIR_LANE_VISITORS_MAX + 8; i++) {
		fds[i] = visit(&h);
		lane_poll_wait(h.poll, 0);
		lane_poll_wait(h.poll, 0);
	}
	for (uint32_t i = 0; i < WEIR_LANE_VISITORS_MAX + 8; i++) { /* the oldest had to leave */
		const bool is_open = recv(fds[i], &answer, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
		assert_int_equal(is_open, i >= 8);
		close(fds[i]);
	}
	house_close(&h);
}

struct dialled {
	bool done;
	int fd;
	char why[WEIR_ERROR_TEXT_BYTES];
};

static void on_dialled(void *arg, int fd, const char *why)
{
	struct dialled *d = arg;
	d->done = true;
	d->fd = fd;
	snprintf(d->why, sizeof d->why, "%s", why);
}

static void a_client_dials(void **state)
{
	(void)state;
	struct house h;
	struct dialled d = {0};
	const struct lane_ticket ticket = {.address = "unix"};
	uint8_t token[LANE_TOKEN_BYTES];
	weir_error err = {0};
	house_open(&h);
	const struct sockaddr_un at = address_of(&h);
	const struct sockaddr *to = (const struct sockaddr *)&at;
	assert_int_equal(lane_listener_issue(h.listener, &ticket, token), WEIR_OK);
	assert_non_null(lane_dial_start(h.poll, to, sizeof at, token, on_dialled, &d, &err));
	while (!d.done)
		lane_poll_wait(h.poll, 1000000);
	assert_true(d.fd >= 0);
	close(d.fd);
	d = (struct dialled){0};
	assert_non_null(lane_dial_start(h.poll, to, sizeof at, token, on_dialled, &d, &err));
	while (!d.done)
		lane_poll_wait(h.poll, 1000000);
	assert_int_equal(d.fd, -1);
	assert_non_null(strstr(d.why, "hung up"));
	lane_listener_stop(h.listener); /* it listens, and nobody answers */
	d = (struct dialled){0};
	assert_non_null(lane_dial_start(h.poll, to, sizeof at, token, on_dialled, &d, &err));
	while (!d.done)
		lane_poll_wait(h.poll, 1000000);
	assert_non_null(strstr(d.why, "in time"));
	house_close(&h);
	assert_null(lane_dial_start(h.poll, to, sizeof at, token, on_dialled, &d, &err));
	assert_int_equal(err.status, WEIR_E_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(messages_arrive_in_any_pieces),
	    cmocka_unit_test(large_messages_leave_in_parts),
	    cmocka_unit_test(nothing_is_read_unasked),
	    cmocka_unit_test(bad_frames_end_a_lane),
	    cmocka_unit_test(a_peer_that_is_gone),
	    cmocka_unit_test(a_status_travels),
	    cmocka_unit_test(a_silent_peer_is_dead),
	    cmocka_unit_test(a_ticket_opens_one_lane),
	    cmocka_unit_test(tickets_and_visitors_are_bounded),
	    cmocka_unit_test(a_client_dials),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
