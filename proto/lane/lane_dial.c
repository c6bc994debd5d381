#include "proto/lane/lane_dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

struct lane_dial {
	struct lane_watch watch;
	struct lane_poll *poll;
	bool watched, greeted;
	uint8_t greeting[LANE_GREETING_BYTES], answer[LANE_GREETING_BYTES];
	size_t answer_got;
	int64_t until_ns;
	char why[WEIR_ERROR_TEXT_BYTES]; /* "": nothing has failed */
	lane_dialled_fn done;
	void *arg;
};

static void destroy(struct lane_dial *d, bool keep_fd)
{
	if (d->watched)
		lane_poll_remove(d->poll, &d->watch);
	if (d->watch.fd >= 0 && !keep_fd)
		close(d->watch.fd);
	free(d);
}

void lane_dial_cancel(struct lane_dial *d)
{
	destroy(d, false);
}

static void end(struct lane_dial *d, bool is_open)
{
	const struct lane_dial was = *d;
	destroy(d, is_open);
	was.done(was.arg, is_open ? was.watch.fd : -1, was.why);
}

static void fail(struct lane_dial *d, const char *why)
{
	snprintf(d->why, sizeof d->why, "%s", why);
}

/* Sends the greeting once the connection is made. */
static void greet(struct lane_dial *d)
{
	int code = 0;
	socklen_t bytes = sizeof code;
	if (getsockopt(d->watch.fd, SOL_SOCKET, SO_ERROR, &code, &bytes) || code) {
		fail(d, strerror(code ? code : errno));
		return;
	}
	const ssize_t n = send(d->watch.fd, d->greeting, sizeof d->greeting, MSG_NOSIGNAL);
	d->greeted = n == (ssize_t)sizeof d->greeting;
	if (!d->greeted && n >= 0)
		fail(d, "the connection took half of a greeting");
	else if (!d->greeted && errno != EAGAIN && errno != ENOTCONN)
		fail(d, strerror(errno));
}

static void take_answer(struct lane_dial *d)
{
	uint8_t token[LANE_TOKEN_BYTES];
	weir_error err = {0};
	while (d->answer_got < sizeof d->answer) {
		const ssize_t n = read(d->watch.fd, d->answer + d->answer_got, sizeof d->answer - d->answer_got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			fail(d, n ? strerror(errno) : "the server hung up");
			return;
		}
		d->answer_got += (size_t)n;
	}
	if (lane_get_greeting(d->answer, token, &err))
		fail(d, err.text);
	else if (memcmp(d->answer, d->greeting, sizeof d->answer) != 0)
		fail(d, "the server answered another greeting");
}

static struct lane_dial *dial_of(struct lane_watch *w)
{
	return (struct lane_dial *)(void *)((char *)w - offsetof(struct lane_dial, watch));
}

static void ready(struct lane_watch *w, uint32_t events)
{
	struct lane_dial *d = dial_of(w);
	(void)events;
	if (!d->why[0] && !d->greeted)
		greet(d);
	if (!d->why[0] && d->greeted)
		take_answer(d);
	if (d->why[0])
		end(d, false);
	else if (d->answer_got == sizeof d->answer)
		end(d, true);
}

static void tick(struct lane_watch *w, int64_t now_ns, bool slept)
{
	struct lane_dial *d = dial_of(w);
	if (now_ns < d->until_ns || slept)
		return;
	fail(d, d->greeted ? "the server did not answer in time" : "the connection was not made in time");
	end(d, false);
}

static void drop(struct lane_watch *w)
{
	struct lane_dial *d = dial_of(w);
	d->watched = false;
	destroy(d, false);
}

static bool begin(struct lane_dial *d, const struct sockaddr *to, socklen_t to_bytes)
{
	const int one = 1;
	d->watch.fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->watch.fd < 0)
		return false;
	if (to->sa_family != AF_UNIX)
		(void)setsockopt(d->watch.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(d->watch.fd, to, to_bytes) && errno != EINPROGRESS)
		return false;
	return lane_poll_add(d->poll, &d->watch);
}

struct lane_dial *lane_dial_start(struct lane_poll *poll, const struct sockaddr *to, socklen_t to_bytes,
                                  const uint8_t token[LANE_TOKEN_BYTES], lane_dialled_fn done, void *arg, weir_error *err)
{
	struct lane_dial *d = calloc(1, sizeof *d);
	if (!d) {
		weir_fail(err, WEIR_E_MEMORY, "out of memory");
		return NULL;
	}
	*d = (struct lane_dial){
	    .watch = {.ready = ready, .tick = tick, .drop = drop, .fd = -1}, .poll = poll, .done = done, .arg = arg};
	d->until_ns = clock_ns(clock_system()) + WEIR_LANE_OPEN_MS * INT64_C(1000000);
	lane_put_greeting(d->greeting, token);
	d->watched = begin(d, to, to_bytes);
	if (d->watched)
		return d;
	weir_fail(err, WEIR_E_UNAVAILABLE, "%s", strerror(errno));
	destroy(d, false);
	return NULL;
}
