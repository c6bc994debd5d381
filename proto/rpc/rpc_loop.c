/* A loop: one thread that runs posted tasks, timers and its transport's work in turns, so that none
 * starves the others.
 *
 * Posting takes the lock for a few instructions and wakes the thread only when it sleeps. The
 * thread sets `waiting` under the lock before it waits, and the first post clears it. So a burst
 * of posts costs one wake-up, and a busy loop none. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "proto/rpc/rpc_transport.h"

int64_t rpc_now_ns(void)
{
	return clock_ns(clock_system());
}

/* Posts are answers, ends and closings: the sender can neither continue without them nor report a
 * failure. So a post is never refused; a process without memory for its few bytes stops here. */
static void *must_have(void *memory)
{
	assert(memory && "out of memory for a task of a loop");
	return memory;
}

/* Grows *array to hold at least one more element. */
static void grow(void *array, uint32_t count, uint32_t *capacity, size_t element)
{
	if (count < *capacity)
		return;
	uint32_t wanted = *capacity ? *capacity * 2 : 64;
	void **p = array;
	*p = must_have(realloc(*p, wanted * element));
	*capacity = wanted;
}

/* --- Timers: a binary heap by due_ns; heap[0] is due first. */
static void heap_put(struct rpc_loop *loop, uint32_t i, struct rpc_timer *t)
{
	loop->heap[i] = t;
	t->place = i + 1;
}

static void heap_fix(struct rpc_loop *loop, uint32_t i)
{
	struct rpc_timer *t = loop->heap[i];
	for (; i > 0 && t->due_ns < loop->heap[(i - 1) / 2]->due_ns; i = (i - 1) / 2)
		heap_put(loop, i, loop->heap[(i - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child + 1 < loop->heap_count && loop->heap[child + 1]->due_ns < loop->heap[child]->due_ns)
			child++;
		if (child >= loop->heap_count || loop->heap[child]->due_ns >= t->due_ns)
			break;
		heap_put(loop, i, loop->heap[child]);
		i = child;
	}
	heap_put(loop, i, t);
}

void rpc_timer_set(struct rpc_loop *loop, struct rpc_timer *timer, int64_t due_ns, void (*fn)(void *arg), void *arg)
{
	assert(rpc_loop_is_current(loop) && !timer->place);
	grow(&loop->heap, loop->heap_count, &loop->heap_capacity, sizeof *loop->heap);
	timer->due_ns = due_ns;
	timer->task = (struct rpc_task){fn, arg};
	heap_put(loop, loop->heap_count++, timer);
	heap_fix(loop, loop->heap_count - 1);
}

void rpc_timer_clear(struct rpc_loop *loop, struct rpc_timer *timer)
{
	assert(rpc_loop_is_current(loop));
	if (!timer->place)
		return;
	uint32_t i = timer->place - 1;
	struct rpc_timer *last = loop->heap[--loop->heap_count];
	timer->place = 0;
	if (last != timer) {
		heap_put(loop, i, last);
		heap_fix(loop, i);
	}
}

static void timers_run(struct rpc_loop *loop)
{
	if (!loop->heap_count)
		return;
	int64_t now = rpc_now_ns();
	while (loop->heap_count && loop->heap[0]->due_ns <= now) {
		struct rpc_timer *t = loop->heap[0];
		struct rpc_task task = t->task;
		rpc_timer_clear(loop, t);
		if (t->owned)
			free(t);
		task.fn(task.arg);
	}
}

static int64_t timers_timeout(const struct rpc_loop *loop)
{
	if (!loop->heap_count)
		return -1;
	int64_t left = loop->heap[0]->due_ns - rpc_now_ns();
	return left > 0 ? left : 0;
}

/* --- The thread */

/* Takes the posted tasks into loop->running. If there is nothing to do, marks the thread as
 * `waiting`. */
static uint32_t take_posted(struct rpc_loop *loop, int64_t timeout_ns, bool *stop)
{
	pthread_mutex_lock(&loop->lock);
	struct rpc_task *tasks = loop->posted;
	uint32_t count = loop->posted_count, capacity = loop->posted_capacity;
	loop->posted = loop->running;
	loop->posted_capacity = loop->running_capacity;
	loop->posted_count = 0;
	loop->running = tasks;
	loop->running_capacity = capacity;
	*stop = loop->stopping && count == 0;
	loop->waiting = count == 0 && timeout_ns != 0 && !*stop;
	pthread_mutex_unlock(&loop->lock);
	return count;
}

static void run_posted(struct rpc_loop *loop, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		loop->running[i].fn(loop->running[i].arg);
}

void rpc_loop_drain(struct rpc_loop *loop)
{
	bool stop;
	for (uint32_t count; (count = take_posted(loop, 0, &stop)) > 0;)
		run_posted(loop, count);
}

static void *loop_main(void *arg)
{
	struct rpc_loop *loop = arg;
	pthread_mutex_lock(&loop->lock); /* waits until rpc_loop_create has stored loop->thread */
	pthread_mutex_unlock(&loop->lock);
	pthread_setname_np(pthread_self(), loop->name); /* of another thread, glibc opens a file of /proc */
	for (;;) {
		bool stop;
		timers_run(loop);
		int64_t timeout_ns = timers_timeout(loop);
		uint32_t count = take_posted(loop, timeout_ns, &stop);
		if (stop)
			break;
		run_posted(loop, count);
		loop->rpc->ops->loop_wait(loop, count ? 0 : timeout_ns);
	}
	loop->rpc->ops->loop_finish(loop);
	return NULL;
}

void rpc_loop_notice(struct rpc_loop *loop, void (*notice)(void *arg, const char *text), void *arg)
{
	loop->notice = notice;
	loop->notice_arg = arg;
}

struct rpc_loop *rpc_loop_create(struct rpc *rpc, const char *name, weir_error *err)
{
	struct rpc_loop *loop = rpc->ops->loop_create(rpc);
	if (!loop) {
		weir_fail(err, WEIR_E_MEMORY, "loop %s: out of memory", name);
		return NULL;
	}
	loop->rpc = rpc;
	loop->shape = rpc->shape;
	snprintf(loop->name, sizeof loop->name, "%s", name);
	pthread_mutex_init(&loop->lock, NULL);
	pthread_mutex_lock(&loop->lock);
	int code = pthread_create(&loop->thread, NULL, loop_main, loop);
	pthread_mutex_unlock(&loop->lock);
	if (code) {
		weir_fail(err, WEIR_E_LIMIT, "loop %s: cannot start a thread: %s", name, strerror(code));
		pthread_mutex_destroy(&loop->lock);
		rpc->ops->loop_destroy(loop);
		return NULL;
	}
	return loop;
}

void rpc_loop_post(struct rpc_loop *loop, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&loop->lock);
	grow(&loop->posted, loop->posted_count, &loop->posted_capacity, sizeof *loop->posted);
	loop->posted[loop->posted_count++] = (struct rpc_task){fn, arg};
	bool wake = loop->waiting;
	loop->waiting = false;
	/* Under the lock: a loop that is being destroyed lives until it is released. */
	if (wake)
		loop->rpc->ops->loop_wake(loop);
	pthread_mutex_unlock(&loop->lock);
}

static void post(void *loop, void (*run)(void *arg), void *arg)
{
	rpc_loop_post(loop, run, arg);
}

struct callback_executor rpc_loop_executor(struct rpc_loop *loop)
{
	return (struct callback_executor){.post = post, .to = loop};
}

struct delayed {
	struct rpc_timer timer;
	struct rpc_loop *loop;
	struct rpc_task task;
	int64_t due_ns;
};

static void delayed_set(void *arg)
{
	struct delayed *d = arg;
	rpc_timer_set(d->loop, &d->timer, d->due_ns, d->task.fn, d->task.arg);
}

void rpc_loop_after(struct rpc_loop *loop, uint32_t delay_ms, void (*fn)(void *arg), void *arg)
{
	struct delayed *d = must_have(malloc(sizeof *d));
	*d = (struct delayed){
	    .timer = {.owned = true}, .loop = loop, .task = {fn, arg}, .due_ns = rpc_now_ns() + delay_ms * 1000000ll};
	if (rpc_loop_is_current(loop))
		delayed_set(d);
	else
		rpc_loop_post(loop, delayed_set, d);
}

bool rpc_loop_is_current(const struct rpc_loop *loop)
{
	return pthread_equal(pthread_self(), loop->thread);
}

void rpc_loop_destroy(struct rpc_loop *loop)
{
	if (!loop)
		return;
	assert(!rpc_loop_is_current(loop));
	pthread_mutex_lock(&loop->lock);
	loop->stopping = true;
	if (loop->waiting)
		loop->rpc->ops->loop_wake(loop);
	loop->waiting = false;
	pthread_mutex_unlock(&loop->lock);
	pthread_join(loop->thread, NULL);
	for (uint32_t i = 0; i < loop->heap_count; i++)
		if (loop->heap[i]->owned)
			free(loop->heap[i]);
	free(loop->heap);
	free(loop->posted);
	free(loop->running);
	pthread_mutex_destroy(&loop->lock);
	loop->rpc->ops->loop_destroy(loop);
}
