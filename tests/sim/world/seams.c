/* Replacements of pthreads, clocks and entropy, which the linker puts in place of production code's
 * calls (-Wl,--wrap). A lock or condition keeps its state in the caller's pthread_mutex_t or
 * pthread_cond_t. All zeros (the static initialisers) are a valid initial state. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/world/internal.h"

struct lock {
	uint64_t owner; /* a thread's id; 0: free */
	uint32_t waiting;
};
struct condition {
	uint32_t waiting;
	clockid_t clock;
};
_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "it is kept there");
_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "it is kept there");

#define EVENT_OWNER UINT64_MAX /* owner of a lock taken in an event */
#define YIELD_NS    50000      /* duration of sched_yield */

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*fn)(void *arg), void *arg);
int __wrap_pthread_join(pthread_t id, void **result);
pthread_t __wrap_pthread_self(void);
int __wrap_pthread_setname_np(pthread_t id, const char *name);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_sched_yield(void);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags);
pid_t __wrap_getpid(void);
uint64_t __wrap_process_pid_namespace(void);
bool __wrap_process_is_gone(uint32_t pid);

static int64_t ns_of(const struct timespec *t)
{
	return t->tv_sec * SIM_S + t->tv_nsec;
}

/* --- Threads */

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*fn)(void *arg), void *arg)
{
	(void)attributes;
	*out = thread_id(thread_create(node_current(), fn, arg));
	return 0;
}

int __wrap_pthread_join(pthread_t id, void **result)
{
	return thread_join(id, result) ? 0 : ESRCH;
}

pthread_t __wrap_pthread_self(void)
{
	const struct thread *t = thread_current();
	return t ? thread_id(t) : 0;
}

int __wrap_pthread_setname_np(pthread_t id, const char *name)
{
	(void)id, (void)name;
	return 0;
}

/* --- Locks
 *
 * A killed thread's lock counts as free. Such a lock is shared by simulated processes, which real
 * processes would not share. */

static struct lock *lock_of(pthread_mutex_t *mutex)
{
	return (struct lock *)(void *)mutex;
}

static bool is_held(const struct lock *l)
{
	return l->owner && (l->owner == EVENT_OWNER || thread_find(l->owner));
}

static uint64_t self(void)
{
	const struct thread *t = thread_current();
	return t ? thread_id(t) : EVENT_OWNER;
}

static void take(struct lock *l)
{
	if (is_held(l) && l->owner == self())
		world_stop("a thread takes a lock that it holds");
	while (is_held(l)) {
		l->waiting++;
		(void)thread_wait(l, -1);
		l->waiting--;
	}
	l->owner = self();
}

static void give(struct lock *l)
{
	if (l->owner != self())
		world_stop("a thread gives back a lock that it does not hold");
	l->owner = 0;
	if (l->waiting)
		threads_wake(l, true);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
	(void)attributes;
	memset(mutex, 0, sizeof *mutex);
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	if (is_held(lock_of(mutex)))
		world_stop("a lock that is held is destroyed");
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (thread_may_be_interrupted(thread_current()) && world_chance(world_preempt()))
		thread_yield();
	take(lock_of(mutex));
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	give(lock_of(mutex));
	return 0;
}

/* --- Conditions */

static struct condition *condition_of(pthread_cond_t *cond)
{
	return (struct condition *)(void *)cond;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
	clockid_t clock = CLOCK_REALTIME;
	if (attributes)
		(void)pthread_condattr_getclock(attributes, &clock);
	memset(cond, 0, sizeof *cond);
	condition_of(cond)->clock = clock;
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
	if (condition_of(cond)->waiting)
		world_stop("a condition that is waited for is destroyed");
	return 0;
}

static bool wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns)
{
	struct condition *c = condition_of(cond);
	bool woken = true;
	c->waiting++;
	give(lock_of(mutex));
	if (world_chance(world_spurious()))
		thread_yield();
	else
		woken = thread_wait(c, until_ns);
	c->waiting--;
	take(lock_of(mutex));
	return woken;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	(void)wait_for(cond, mutex, -1);
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	const int64_t until_ns = node_clock_reaches(node_current(), condition_of(cond)->clock, ns_of(until));
	return wait_for(cond, mutex, until_ns) ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	if (condition_of(cond)->waiting)
		threads_wake(cond, false);
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (condition_of(cond)->waiting)
		threads_wake(cond, true);
	return 0;
}

/* --- Time and entropy
 *
 * A yield lets time pass, because the thread may poll for the result of an event. */

int __wrap_sched_yield(void)
{
	thread_sleep(YIELD_NS);
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)left;
	thread_sleep(ns_of(time));
	return 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
	const struct node *n = node_current();
	const int64_t ns = n ? node_clock(n, id) : world_now();
	*out = (struct timespec){.tv_sec = ns / SIM_S, .tv_nsec = ns % SIM_S};
	return 0;
}

ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags)
{
	(void)flags;
	struct node *n = node_current();
	for (size_t at = 0; at < bytes;) {
		const uint64_t word = n ? node_entropy(n) : prng_u64(world_random());
		const size_t some = bytes - at < sizeof word ? bytes - at : sizeof word;
		memcpy((uint8_t *)out + at, &word, some);
		at += some;
	}
	return (ssize_t)bytes;
}

pid_t __wrap_getpid(void)
{
	const struct node *n = node_current();
	return n ? (pid_t)node_pid(n) : 1;
}

/* All machines share one, as pids are unique in a world. */
uint64_t __wrap_process_pid_namespace(void)
{
	return 1;
}

bool __wrap_process_is_gone(uint32_t pid)
{
	return !node_runs(pid);
}
