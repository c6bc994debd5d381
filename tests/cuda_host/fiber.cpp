/* A switch saves the callee-saved registers on the old stack and restores those of the new stack.
 * That takes nanoseconds, whereas swapcontext calls the kernel for the signal mask. Other
 * processors than x86-64 use swapcontext. AddressSanitizer is told about each switch. */
#include "tests/cuda_host/fiber.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES ((size_t)256 << 10)
#else
#define STACK_BYTES ((size_t)64 << 10)
#endif

#define GUARD_BYTES ((size_t)4096)

struct fiber {
	unsigned char *stack; /* (STACK_BYTES), above a guard page */
	void (*body)(void *);
	void *argument;
	bool ended;
	struct fiber *next; /* next released one */
#if defined(__x86_64__)
	void *at;
#else
	ucontext_t at;
#endif
};

static struct fiber *released, *running;
#if defined(__SANITIZE_ADDRESS__)
static const void *home_stack;
static size_t home_bytes;
#endif

static void enter_fiber(void *fake)
{
#if defined(__SANITIZE_ADDRESS__)
	__sanitizer_finish_switch_fiber(fake, &home_stack, &home_bytes);
#else
	(void)fake;
#endif
}

static void fiber_main(void);

#if defined(__x86_64__)
static void *home;

extern "C" void fiber_switch(void **from, void *to);
__asm__(".text\n"
        ".type fiber_switch, @function\n"
        ".globl fiber_switch\n"
        "fiber_switch:\n"
        "	pushq %rbp\n"
        "	pushq %rbx\n"
        "	pushq %r12\n"
        "	pushq %r13\n"
        "	pushq %r14\n"
        "	pushq %r15\n"
        "	movq %rsp, (%rdi)\n"
        "	movq %rsi, %rsp\n"
        "	popq %r15\n"
        "	popq %r14\n"
        "	popq %r13\n"
        "	popq %r12\n"
        "	popq %rbx\n"
        "	popq %rbp\n"
        "	ret\n"
        ".size fiber_switch, . - fiber_switch\n");

#define REGISTERS_SAVED 6

static void prepare(struct fiber *f)
{
	/* The ABI: a function starts 8 bytes off a multiple of 16. */
	void **top = (void **)(f->stack + STACK_BYTES) - 2;
	top[0] = (void *)fiber_main;
	top[1] = NULL;
	for (int i = 1; i <= REGISTERS_SAVED; i++)
		top[-i] = NULL;
	f->at = top - REGISTERS_SAVED;
}
static void switch_in(struct fiber *f)
{
	fiber_switch(&home, f->at);
}
static void switch_out(struct fiber *f)
{
	fiber_switch(&f->at, home);
}
#else
static ucontext_t home;

static void prepare(struct fiber *f)
{
	getcontext(&f->at);
	f->at.uc_stack.ss_sp = f->stack;
	f->at.uc_stack.ss_size = STACK_BYTES;
	f->at.uc_link = NULL;
	makecontext(&f->at, fiber_main, 0);
}
static void switch_in(struct fiber *f)
{
	swapcontext(&home, &f->at);
}
static void switch_out(struct fiber *f)
{
	swapcontext(&f->at, &home);
}
#endif

static void fiber_main(void)
{
	enter_fiber(NULL);
	struct fiber *f = running;
	f->body(f->argument);
	f->ended = true;
#if defined(__SANITIZE_ADDRESS__)
	__sanitizer_start_switch_fiber(NULL, home_stack, home_bytes); /* this stack is finished */
#endif
	switch_out(f);
	abort(); /* a finished fiber cannot resume */
}

static struct fiber *new_fiber(void)
{
	struct fiber *f = (struct fiber *)calloc(1, sizeof *f);
	void *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f == NULL || memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
		fprintf(stderr, "emulated device: no memory for a thread's stack\n");
		abort();
	}
	f->stack = (unsigned char *)memory + GUARD_BYTES;
	return f;
}

void fiber_resume(struct fiber *f)
{
	assert(running == NULL && !f->ended);
	running = f;
#if defined(__SANITIZE_ADDRESS__)
	void *fake = NULL;
	__sanitizer_start_switch_fiber(&fake, f->stack, STACK_BYTES);
#endif
	switch_in(f);
#if defined(__SANITIZE_ADDRESS__)
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
	running = NULL;
}

struct fiber *fiber_begin(void (*body)(void *), void *argument)
{
	struct fiber *f = released;
	if (f != NULL)
		released = f->next;
	else
		f = new_fiber();
	f->body = body;
	f->argument = argument;
	f->ended = false;
	prepare(f);
	fiber_resume(f);
	return f;
}

void fiber_yield(void)
{
	struct fiber *f = running;
#if defined(__SANITIZE_ADDRESS__)
	void *fake = NULL;
	__sanitizer_start_switch_fiber(&fake, home_stack, home_bytes);
	switch_out(f);
	enter_fiber(fake);
#else
	switch_out(f);
#endif
}

bool fiber_ended(const struct fiber *f)
{
	return f->ended;
}

void fiber_release(struct fiber *f)
{
	f->next = released;
	released = f;
}
