/* Simulated threads. Each has a stack, and the scheduler, on the program's stack, switches to one
 * at a time. A thread that waits gives up its turn. The seed chooses among the ready threads. If no
 * thread is ready, the next event runs, and time advances to it. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/sim/world/internal.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum { THREADS_MAX = 1u << 16, STACK_BYTES = 1 << 20, STACKS_KEPT = 64 };

enum state { STATE_READY, STATE_WAITS, STATE_OVER };

struct thread {
	uint64_t id; /* from 1; also its place in `threads` */
	struct node *node;
	enum state state;
	ucontext_t context; /* initial context; */
	jmp_buf place;      /* place to resume */
	bool begun;
	uint8_t *stack;
	void *sanitizer; /* AddressSanitizer's fake stack while the thread does not run */
	int saved_errno;
	void *(*fn)(void *arg);
	void *arg, *result;
	const void *object; /* object that it waits for */
	uint64_t waits;     /* number of waits so far: a timer wakes only its own wait */
	bool timed_out;
	uint32_t machine; /* depth of machine_enter */
};

static struct {
	struct thread *of[THREADS_MAX]; /* by id */
	uint64_t count;
	struct thread *ready[THREADS_MAX];
	uint32_t ready_count;
	struct thread *current;
	jmp_buf place;
	void *sanitizer;
	const void *scheduler_stack;
	size_t scheduler_stack_bytes;
	uint8_t *stacks[STACKS_KEPT]; /* free stacks */
	uint32_t stacks_count;
	struct node *event_node; /* set by machine_for */
} s;

/* --- Stacks
 *
 * A returned stack may have bytes that the sanitizer poisoned. */

static uint8_t *stack_take(void)
{
	if (s.stacks_count)
		return s.stacks[--s.stacks_count];
	void *p = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (p == MAP_FAILED)
		world_stop("no memory for a thread's stack");
	return p;
}

static void stack_give(uint8_t *stack)
{
	if (!stack)
		return;
#ifdef __SANITIZE_ADDRESS__
	__asan_unpoison_memory_region(stack, STACK_BYTES);
#endif
	if (s.stacks_count < STACKS_KEPT)
		s.stacks[s.stacks_count++] = stack;
	else
		munmap(stack, STACK_BYTES);
}

/* --- Switching
 *
 * setjmp saves a system call: swapcontext sets the signal mask each time, and no thread here has
 * one of its own. */

static void change_stack(jmp_buf *from, jmp_buf *to)
{
	if (_setjmp(*from) == 0)
		_longjmp(*to, 1);
}

static void begin_stack(struct thread *t)
{
	t->begun = true;
	setcontext(&t->context);
}

static void switch_to_scheduler(void)
{
	struct thread *t = s.current;
	t->saved_errno = errno;
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(t->state == STATE_OVER ? NULL : &t->sanitizer, s.scheduler_stack, s.scheduler_stack_bytes);
#endif
	change_stack(&t->place, &s.place);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(t->sanitizer, NULL, NULL);
#endif
	errno = t->saved_errno;
}

static void switch_to(struct thread *t)
{
	s.current = t;
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(&s.sanitizer, t->stack, STACK_BYTES);
#endif
	if (t->begun)
		change_stack(&s.place, &t->place);
	else if (_setjmp(s.place) == 0)
		begin_stack(t);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(s.sanitizer, NULL, NULL);
#endif
	s.current = NULL;
}

static void thread_main(void)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(NULL, &s.scheduler_stack, &s.scheduler_stack_bytes);
#endif
	struct thread *t = s.current;
	t->result = t->fn(t->arg);
	t->state = STATE_OVER;
	threads_wake(t, true);
	switch_to_scheduler();
	world_stop("a thread ran after its end");
}

static void make_ready(struct thread *t)
{
	t->state = STATE_READY;
	t->object = NULL;
	s.ready[s.ready_count++] = t;
}

/* --- Threads */

struct thread *thread_create(struct node *n, void *(*fn)(void *arg), void *arg)
{
	if (s.count + 1 >= THREADS_MAX)
		world_stop("more than %d threads in one world", THREADS_MAX);
	struct thread *t = world_alloc(sizeof *t);
	t->id = ++s.count;
	s.of[t->id] = t;
	t->node = n;
	t->fn = fn;
	t->arg = arg;
	t->stack = stack_take();
	getcontext(&t->context);
	t->context.uc_stack.ss_sp = t->stack;
	t->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&t->context, thread_main, 0);
	t->context.uc_stack =
	    /* Only AddressSanitizer reads it. It would clear its notes about the stack at each
	     * switch. */
	    (stack_t){0};
	make_ready(t);
	return t;
}

struct thread *thread_current(void)
{
	return s.current;
}
uint64_t thread_id(const struct thread *t)
{
	return t->id;
}
struct node *thread_node(const struct thread *t)
{
	return t->node;
}

struct thread *thread_find(uint64_t id)
{
	struct thread *t = id && id <= s.count ? s.of[id] : NULL;
	return t && t->state != STATE_OVER ? t : NULL;
}

/* --- Waiting */

struct alarm {
	struct thread *thread;
	uint64_t wait;
};

static void ring(void *arg)
{
	const struct alarm a = *(struct alarm *)arg;
	world_free(arg);
	if (a.thread->state != STATE_WAITS || a.thread->waits != a.wait)
		return;
	a.thread->timed_out = true;
	make_ready(a.thread);
}

bool thread_wait(const void *object, int64_t until_ns)
{
	struct thread *t = s.current;
	if (!t || t->machine)
		world_stop("something waits that must not");
	t->state = STATE_WAITS;
	t->object = object;
	t->waits++;
	t->timed_out = false;
	if (until_ns >= 0) {
		struct alarm *a = world_alloc(sizeof *a);
		*a = (struct alarm){t, t->waits};
		world_after(until_ns - world_now(), ring, a);
	}
	switch_to_scheduler();
	return !t->timed_out;
}

void threads_wake(const void *object, bool all)
{
	struct thread *waiting[64];
	uint32_t count = 0;
	for (uint64_t id = 1; id <= s.count && count < 64; id++)
		if (s.of[id]->state == STATE_WAITS && s.of[id]->object == object)
			waiting[count++] = s.of[id];
	if (count == 64)
		world_stop("64 threads wait for one thing");
	if (!all && count)
		make_ready(waiting[world_between(0, count - 1)]);
	for (uint32_t i = 0; all && i < count; i++)
		make_ready(waiting[i]);
}

bool thread_join(uint64_t id, void **result)
{
	struct thread *t = id && id <= s.count ? s.of[id] : NULL;
	if (!t)
		return false;
	while (t->state != STATE_OVER)
		(void)thread_wait(t, -1);
	if (result)
		*result = t->result;
	return true;
}

void thread_sleep(int64_t ns)
{
	(void)thread_wait(NULL, world_now() + ns);
}

void thread_yield(void)
{
	make_ready(s.current);
	switch_to_scheduler();
}

/* --- Acting for the machine */

bool thread_may_be_interrupted(const struct thread *t)
{
	return t && !t->machine;
}
void machine_enter(void)
{
	if (s.current)
		s.current->machine++;
}
void machine_leave(void)
{
	if (s.current)
		s.current->machine--;
}
void machine_for(struct node *n)
{
	s.event_node = n;
}

struct node *heap_owner(void)
{
	if (!s.current)
		return s.event_node;
	return s.current->machine ? NULL : s.current->node;
}

/* --- The scheduler */

static void forget_ready(const struct thread *t)
{
	for (uint32_t i = 0; i < s.ready_count; i++)
		if (s.ready[i] == t)
			s.ready[i--] = s.ready[--s.ready_count];
}

void threads_kill(struct node *n)
{
	for (uint64_t id = 1; id <= s.count; id++) {
		struct thread *t = s.of[id];
		if (t->node != n || t->state == STATE_OVER)
			continue;
		if (t == s.current || t->machine)
			world_stop("%s is killed by itself", node_name(n));
		forget_ready(t);
		t->state = STATE_OVER;
		stack_give(t->stack);
		t->stack = NULL;
	}
}

/* Chooses a random ready thread; NULL: none is ready. */
static struct thread *choose(void)
{
	uint32_t able = 0;
	for (uint32_t i = 0; i < s.ready_count; i++)
		able += !s.ready[i]->node->paused;
	if (!able)
		return NULL;
	uint32_t nth = able == 1 ? 0 : (uint32_t)world_between(0, able - 1);
	for (uint32_t i = 0; i < s.ready_count; i++) {
		struct thread *t = s.ready[i];
		if (t->node->paused || nth--)
			continue;
		s.ready[i] = s.ready[--s.ready_count];
		return t;
	}
	return NULL;
}

void threads_run(const bool *done)
{
	while (!*done) {
		struct thread *t = choose();
		if (!t) {
			if (!world_step())
				world_stop("nothing can ever run again");
			continue;
		}
		world_trace(1, t->id, 0);
		switch_to(t);
		if (t->state == STATE_OVER) {
			stack_give(t->stack);
			t->stack = NULL;
		}
	}
}

void threads_begin(void)
{
	s.count = s.ready_count = 0;
	s.current = NULL;
	s.event_node = NULL;
}

void threads_end(void)
{
	s.ready_count = 0;
	s.count = 0;
}
