#include "tests/unit/server/coord/counted_session.h"

#include <stdlib.h>

#include "tests/cmocka_check.h"

struct counted {
	struct coord base;
	struct coord *real;
	void (*called)(void *arg, enum session_call call);
	void *arg;
};

static weir_status counted_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg,
                                weir_error *err)
{
	struct counted *x = (struct counted *)c;
	x->called(x->arg, SESSION_READ);
	return coord_read(x->real, name, timeout_ms, done, arg, err);
}

static weir_status counted_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                               weir_error *err)
{
	struct counted *x = (struct counted *)c;
	x->called(x->arg, SESSION_TXN);
	return coord_txn(x->real, txn, timeout_ms, done, arg, err);
}

static struct coord_watch *counted_watch(struct coord *c, const char *name, uint64_t revision,
                                         const struct coord_watch_handler *handler, void *arg)
{
	return coord_watch_start(((struct counted *)c)->real, name, revision, handler, arg);
}

static void counted_close(struct coord *c)
{
	struct counted *x = (struct counted *)c;
	x->called(x->arg, SESSION_CLOSE);
	coord_close(x->real);
	free(x);
}

weir_status counted_session_open(struct coord **out, const struct counted_session_options *options, weir_error *err)
{
	static const struct coord_ops ops = {
	    .read = counted_read, .txn = counted_txn, .watch_start = counted_watch, .close = counted_close};
	struct counted *x = calloc(1, sizeof *x);
	assert_non_null(x);
	x->base.ops = &ops;
	x->called = options->called;
	x->arg = options->arg;
	*out = &x->base;
	return coord_memory_open(&x->real, options->coordinator, options->run_on, options->session, err);
}

struct coord *counted_session_real(struct coord *c)
{
	return ((struct counted *)c)->real;
}
