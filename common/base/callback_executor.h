/* The interface through which a service returns results to the calling thread. A loop implements it
 * (rpc_loop_post), and so do tests and the simulator. */
#ifndef WEIR_CALLBACK_EXECUTOR_H
#define WEIR_CALLBACK_EXECUTOR_H

struct callback_executor {
	void (*post)(void *to, void (*run)(void *arg),
	             /* runs run(arg) on that thread; the posts of one thread run in their order */
	             void *arg);
	void *to;
};

static inline void callback_executor_post(const struct callback_executor *p, void (*run)(void *arg), void *arg)
{
	p->post(p->to, run, arg);
}

#endif
