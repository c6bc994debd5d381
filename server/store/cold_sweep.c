#include "server/store/cold_sweep.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "server/store/admission.h"

#define SWEEP_NICE 10

struct cold_sweep {
	struct cold *cold;
	pthread_t thread;
	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	struct cold_sweep_request *first, **last;
	bool stopping;
};

static weir_status look(struct cold_sweep_request *r, struct cold_scan *scan)
{
	struct cold_row row;
	weir_status status = WEIR_OK;
	for (uint32_t looks = 0; !(status = cold_scan_next(scan, &row, &r->err)); looks++) {
		struct row_meta meta;
		const uint8_t *floats;
		size_t n;
		r->next = row.key;
		if (looks == WEIR_EVICT_LOOKS_BELOW || r->count == WEIR_EVICT_KEYS_MAX)
			return WEIR_OK;
		if (row_decode(row.bytes, row.count, &meta, &floats, &n))
			return weir_fail(&r->err, WEIR_E_CORRUPT, "partition %u, table %u: the stored row of key %llu has %zu bytes",
			                 r->partition, r->table, (unsigned long long)row.key, row.count);
		if (eviction_expired(&r->rule, &meta, r->now_s))
			r->keys[r->count++] = row.key;
	}
	r->end = status == WEIR_E_NOT_FOUND;
	return r->end ? WEIR_OK : status;
}

static weir_status sweep(struct cold *cold, struct cold_sweep_request *r)
{
	struct cold_scan *scan;
	weir_status status = cold_scan_create(&scan, cold, NULL, r->partition, r->table, &r->err);
	if (status)
		return status;
	cold_scan_seek(scan, r->from);
	status = look(r, scan);
	cold_scan_destroy(scan);
	return status;
}

static void deliver(void *arg)
{
	struct cold_sweep_request *r = arg;
	r->done(r);
}

/* Returns NULL when the queue is empty and stays empty. */
static struct cold_sweep_request *take(struct cold_sweep *s)
{
	pthread_mutex_lock(&s->lock);
	while (!s->first && !s->stopping)
		pthread_cond_wait(&s->changed, &s->lock);
	struct cold_sweep_request *r = s->first;
	if (r && !(s->first = r->following))
		s->last = &s->first;
	pthread_mutex_unlock(&s->lock);
	return r;
}

static void *run(void *arg)
{
	struct cold_sweep *s = arg;
	/* Lowers the priority of this thread, which nothing waits for. */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), SWEEP_NICE);
	for (struct cold_sweep_request *r; (r = take(s));) {
		r->status = sweep(s->cold, r);
		callback_executor_post(&r->run_on, deliver, r);
	}
	return NULL;
}

struct cold_sweep *cold_sweep_create(struct cold *cold, weir_error *err)
{
	struct cold_sweep *s = calloc(1, sizeof *s);
	if (!s) {
		weir_fail(err, WEIR_E_MEMORY, "the look for rows to evict: out of memory");
		return NULL;
	}
	s->cold = cold;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (pthread_create(&s->thread, NULL, run, s) == 0)
		return s;
	weir_fail(err, WEIR_E_LIMIT, "the look for rows to evict: its thread could not be started");
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s);
	return NULL;
}

void cold_sweep_submit(struct cold_sweep *s, struct cold_sweep_request *r)
{
	r->following = NULL;
	r->count = 0;
	r->end = false;
	pthread_mutex_lock(&s->lock);
	*s->last = r;
	s->last = &r->following;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void cold_sweep_destroy(struct cold_sweep *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s);
}
