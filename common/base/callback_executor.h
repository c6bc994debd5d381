/* How a service hands its results to the thread that asked: a loop (rpc_loop_post), or what a test or a simulator makes of it. */
#ifndef WEIR_POSTER_H
#define WEIR_POSTER_H

struct poster {
	void (*post)(void *to, void (*run)(void *arg),
	             void *arg); /* runs run(arg) on that thread, in the order of one thread's posts */
	void *to;
};

static inline void poster_post(const struct poster *p, void (*run)(void *arg), void *arg)
{
	p->post(p->to, run, arg);
}

#endif
