/* A ring in the order of arrival, which is also the order of closing: all wait equally long. */
#include "proto/rpc/refused.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/limits.h"

struct held {
	int fd;
	int64_t due_ns;
};

static struct {
	pthread_mutex_t lock; /* guards all fields */
	struct held ring[WEIR_REFUSED_HELD_MAX];
	uint32_t first, count;
	bool closing; /* the thread runs */
} refused = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The system call, because ingress.c replaces close to account for connections that it admitted. */
static void close_first(void)
{
	(void)syscall(SYS_close, refused.ring[refused.first].fd);
	refused.first = (refused.first + 1) % WEIR_REFUSED_HELD_MAX;
	refused.count--;
}

/* Returns the time until the next one is due, or 0 if none is held. */
static int64_t close_due(void)
{
	const int64_t now_ns = clock_ns(clock_system());
	while (refused.count > 0 && refused.ring[refused.first].due_ns <= now_ns)
		close_first();
	return refused.count > 0 ? refused.ring[refused.first].due_ns - now_ns : 0;
}

static void *close_until_empty(void *arg)
{
	pthread_mutex_lock(&refused.lock);
	for (int64_t wait_ns; (wait_ns = close_due()) > 0;) {
		pthread_mutex_unlock(&refused.lock);
		nanosleep(&(struct timespec){.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000}, NULL);
		pthread_mutex_lock(&refused.lock);
	}
	refused.closing = false;
	pthread_mutex_unlock(&refused.lock);
	return arg;
}

static bool begin_closing(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, close_until_empty, NULL) != 0)
		return false;
	pthread_detach(thread);
	return true;
}

void refused_hold(int fd)
{
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){0}, sizeof(int)); /* the kernel's least */
	const int64_t due_ns = clock_ns(clock_system()) + WEIR_REFUSAL_MS * 1000000ll;
	pthread_mutex_lock(&refused.lock);
	if (refused.count == WEIR_REFUSED_HELD_MAX)
		close_first();
	refused.ring[(refused.first + refused.count) % WEIR_REFUSED_HELD_MAX] = (struct held){fd, due_ns};
	refused.count++;
	if (!refused.closing && !(refused.closing = begin_closing()))
		while (refused.count > 0) /* without a thread nothing can be held */
			close_first();
	pthread_mutex_unlock(&refused.lock);
}
