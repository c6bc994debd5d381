#include "server/store/cold_fetch.h"

#include <pthread.h>
#include <stdlib.h>

#define RUN_KEYS 1024u /* keys of one table passed to cold_read together */

struct reader {
	struct cold *cold;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct cold_request *first, **last; /* guarded by lock */
	bool stopping;                      /* guarded by lock */
};
struct cold_fetch {
	uint32_t count;
	struct reader readers[]; /* (count) those running */
};

static int by_table_and_key(const void *a, const void *b)
{
	const struct cold_want *x = a, *y = b;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

weir_status cold_request_read(struct cold *cold, struct cold_request *r)
{
	qsort(r->wants, r->count, sizeof *r->wants, by_table_and_key);
	for (size_t at = 0, n; at < r->count; at += n) {
		uint64_t keys[RUN_KEYS];
		const uint32_t table = r->wants[at].table;
		for (n = 0; n < RUN_KEYS && at + n < r->count && r->wants[at + n].table == table; n++)
			keys[n] = r->wants[at + n].key;
		weir_status status = cold_read(cold, r->partition, table, keys, n, &r->rows, &r->err);
		if (status)
			return status;
	}
	return WEIR_OK;
}

static struct cold_request *take(struct reader *e)
{
	pthread_mutex_lock(&e->lock);
	while (!e->first && !e->stopping)
		pthread_cond_wait(&e->changed, &e->lock);
	struct cold_request *r = e->first;
	if (r && !(e->first = r->next))
		e->last = &e->first;
	pthread_mutex_unlock(&e->lock);
	return r;
}

static void deliver(void *arg)
{
	struct cold_request *r = arg;
	r->done(r);
}

static void *run(void *arg)
{
	struct reader *e = arg;
	for (struct cold_request *r; (r = take(e));) {
		r->status = cold_request_read(e->cold, r);
		callback_executor_post(&r->run_on, deliver, r);
	}
	return NULL;
}

static bool reader_start(struct reader *e, struct cold *cold)
{
	e->cold = cold;
	e->last = &e->first;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	if (pthread_create(&e->thread, NULL, run, e) == 0)
		return true;
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->changed);
	return false;
}

struct cold_fetch *cold_fetch_create(struct cold *cold, uint32_t threads, weir_error *err)
{
	struct cold_fetch *f = calloc(1, sizeof *f + threads * sizeof *f->readers);
	if (!f) {
		weir_fail(err, WEIR_E_MEMORY, "the readers of rows: out of memory");
		return NULL;
	}
	for (; f->count < threads; f->count++)
		if (!reader_start(&f->readers[f->count], cold)) {
			weir_fail(err, WEIR_E_LIMIT, "the readers of rows: thread %u of %u could not be started", f->count + 1, threads);
			cold_fetch_destroy(f);
			return NULL;
		}
	return f;
}

void cold_fetch_submit(struct cold_fetch *f, struct cold_request *r)
{
	struct reader *e = &f->readers[r->partition % f->count];
	r->next = NULL;
	r->status = WEIR_OK;
	pthread_mutex_lock(&e->lock);
	*e->last = r;
	e->last = &r->next;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void cold_fetch_destroy(struct cold_fetch *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->count; i++) {
		struct reader *e = &f->readers[i];
		pthread_mutex_lock(&e->lock);
		e->stopping = true;
		pthread_cond_signal(&e->changed);
		pthread_mutex_unlock(&e->lock);
		pthread_join(e->thread, NULL);
		pthread_mutex_destroy(&e->lock);
		pthread_cond_destroy(&e->changed);
	}
	free(f);
}
