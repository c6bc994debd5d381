#include "proto/lane/lane_poll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/limits.h"

enum { EVENTS_MAX = 64 };

struct lane_poll {
	int epoll, wake;
	struct lane_watch watches; /* a ring; those that are due come first */
	struct epoll_event events[EVENTS_MAX];
	int count, at; /* of events being handled */
	int64_t ticked_ns;
};

static void link_after(struct lane_watch *place, struct lane_watch *w)
{
	w->prev = place;
	w->next = place->next;
	place->next->prev = w;
	place->next = w;
}

static void unlink_watch(struct lane_watch *w)
{
	w->prev->next = w->next;
	w->next->prev = w->prev;
}

struct lane_poll *lane_poll_create(weir_error *err)
{
	struct lane_poll *p = calloc(1, sizeof *p);
	if (!p) {
		weir_fail(err, WEIR_E_MEMORY, "out of memory for a lane");
		return NULL;
	}
	p->watches.prev = p->watches.next = &p->watches;
	p->ticked_ns = clock_ns(clock_system());
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
	if (p->epoll >= 0 && p->wake >= 0 && epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->wake, &e) == 0)
		return p;
	weir_fail(err, WEIR_E_LIMIT, "cannot watch the connections of a lane: %s", strerror(errno));
	lane_poll_destroy(p);
	return NULL;
}

void lane_poll_destroy(struct lane_poll *p)
{
	if (!p)
		return;
	while (p->watches.next != &p->watches) {
		struct lane_watch *w = p->watches.next;
		lane_poll_remove(p, w);
		w->drop(w);
	}
	if (p->epoll >= 0)
		close(p->epoll);
	if (p->wake >= 0)
		close(p->wake);
	free(p);
}

void lane_poll_wake(struct lane_poll *p)
{
	const uint64_t one = 1;
	ssize_t n = write(p->wake, &one, sizeof one); /* fails only where it is awake already */
	(void)n;
}

bool lane_poll_add(struct lane_poll *p, struct lane_watch *w)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = w};
	if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, w->fd, &e))
		return false;
	w->is_due = false;
	link_after(p->watches.prev, w);
	return true;
}

void lane_poll_remove(struct lane_poll *p, struct lane_watch *w)
{
	unlink_watch(w);
	(void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	for (int i = p->at; i < p->count; i++)
		if (p->events[i].data.ptr == w)
			p->events[i].events = 0; /* it is gone; see handle */
}

void lane_poll_soon(struct lane_poll *p, struct lane_watch *w)
{
	if (w->is_due)
		return;
	w->is_due = true;
	unlink_watch(w);
	link_after(&p->watches, w);
}

/* A watch that becomes due meanwhile waits for the next turn. */
static bool run_due(struct lane_poll *p)
{
	struct lane_watch due = {.prev = &due, .next = &due};
	while (p->watches.next->is_due) {
		struct lane_watch *w = p->watches.next;
		unlink_watch(w);
		link_after(&due, w);
	}
	const bool any = due.next != &due;
	while (due.next != &due) {
		struct lane_watch *w = due.next;
		unlink_watch(w);
		w->is_due = false;
		link_after(p->watches.prev, w);
		w->ready(w, 0);
	}
	return any;
}

static void run_ticks(struct lane_poll *p, int64_t now_ns)
{
	if (now_ns - p->ticked_ns < LANE_TICK_MS * INT64_C(1000000))
		return;
	const bool slept = now_ns - p->ticked_ns > WEIR_PAUSE_MS * INT64_C(1000000);
	struct lane_watch ring = {.prev = &ring, .next = &ring};
	p->ticked_ns = now_ns;
	while (p->watches.next != &p->watches) {
		struct lane_watch *w = p->watches.next;
		unlink_watch(w);
		link_after(&ring, w);
	}
	while (ring.next != &ring) {
		struct lane_watch *w = ring.next;
		unlink_watch(w);
		link_after(w->is_due ? &p->watches : p->watches.prev, w);
		w->tick(w, now_ns, slept);
	}
}

static void handle(struct lane_poll *p)
{
	for (p->at = 0; p->at < p->count;) {
		const struct epoll_event e = p->events[p->at++];
		struct lane_watch *w = e.data.ptr;
		uint64_t wakes;
		if (w && e.events)
			w->ready(w, e.events);
		else if (!w)
			while (read(p->wake, &wakes, sizeof wakes) > 0)
				;
	}
	p->count = p->at = 0;
}

/* Ends a wait with the next tick, if there is anything to watch. */
static int64_t until_tick(const struct lane_poll *p, int64_t timeout_ns)
{
	if (p->watches.next == &p->watches)
		return timeout_ns;
	const int64_t tick_ns = p->ticked_ns + LANE_TICK_MS * INT64_C(1000000) - clock_ns(clock_system());
	timeout_ns = timeout_ns < 0 || tick_ns < timeout_ns ? tick_ns : timeout_ns;
	return timeout_ns < 0 ? 0 : timeout_ns;
}

static int wait_events(struct lane_poll *p, int64_t timeout_ns)
{
	const struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
	const int n = epoll_pwait2(p->epoll, p->events, EVENTS_MAX, timeout_ns < 0 ? NULL : &timeout, NULL);
	if (n >= 0 || errno != ENOSYS)
		return n;
	/* before Linux 5.11 */
	const int64_t ms = (timeout_ns + 999999) / 1000000;
	return epoll_wait(p->epoll, p->events, EVENTS_MAX, timeout_ns < 0 ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms);
}

void lane_poll_wait(struct lane_poll *p, int64_t timeout_ns)
{
	if (run_due(p))
		timeout_ns = 0;
	const int n = wait_events(p, until_tick(p, timeout_ns));
	p->count = n > 0 ? n : 0;
	handle(p);
	run_ticks(p, clock_ns(clock_system()));
}
