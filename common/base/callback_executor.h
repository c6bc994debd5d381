/* The interface through which a service returns results to the calling thread. A loop implements it
 * (rpc_loop_post), and so do tests and the simulator. */
#ifndef WEIR_POSTER_H
#define WEIR_POSTER_H

struct poster {
	void (*post)(void *to, void (*run)(void *arg),
	             /* runs run(arg) on that thread; the posts of one thread run in their order */
	             void *arg);
	void *to;
};

static inline void poster_post(const struct poster *p, void (*run)(void *arg), void *arg)
{
	p->post(p->to, run, arg);
}

#endif
