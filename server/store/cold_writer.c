#include "server/store/cold_writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/deadline.h"

#define RETRY_MS_DEFAULT 1000u

struct cold_writer {
	struct cold_writer_options options;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct cold_write *first, **last; /* guarded by lock */
	bool stopping;                    /* guarded by lock */
	_Atomic bool stuck;
	/* The thread's. */
	weir_status failed; /* for good */
	weir_error err;
};

/* Returns the next item; NULL: the queue is empty and stays empty. */
static struct cold_write *take(struct cold_writer *w)
{
	pthread_mutex_lock(&w->lock);
	while (!w->first && !w->stopping)
		pthread_cond_wait(&w->changed, &w->lock);
	struct cold_write *item = w->first;
	if (item && !(w->first = item->next))
		w->last = &w->first;
	pthread_mutex_unlock(&w->lock);
	return item;
}

static bool is_stopping(const struct cold_writer *w)
{
	return w->options.stopping && w->options.stopping(w->options.arg);
}

/* Waits before the next try. False: the writer is stopping. */
static bool pause_before_retry(struct cold_writer *w)
{
	const int64_t deadline_ns = deadline_after_ms(w->options.retry_ms);
	pthread_mutex_lock(&w->lock);
	while (!w->stopping && deadline_wait(&w->changed, &w->lock, deadline_ns))
		;
	bool go_on = !w->stopping;
	pthread_mutex_unlock(&w->lock);
	return go_on;
}

static weir_status write_once(struct cold_writer *w, struct cold_write *item)
{
	switch (item->kind) {
	case COLD_WRITE_ROWS:
		return cold_write(w->options.cold, &item->rows, &item->err);
	case COLD_WRITE_HEADER:
		return cold_put_header(w->options.cold, item->partition, item->header, item->header_bytes, &item->err);
	case COLD_WRITE_EMPTY:
		return cold_empty_partition(w->options.cold, item->partition, item->header, item->header_bytes, &item->err);
	default:
		return cold_flush(w->options.cold, &item->err);
	}
}

static weir_status write_patiently(struct cold_writer *w, struct cold_write *item)
{
	weir_status status = write_once(w, item);
	while (status == WEIR_E_NO_SPACE) {
		atomic_store(&w->stuck, true);
		LOG_AT(w->options.logger, LOG_ERROR, "disk full", "rows wait in memory, free some space: %s", item->err.text);
		if (is_stopping(w) || !pause_before_retry(w)) {
			LOG_AT(w->options.logger, LOG_WARN, "rows are not written",
			       "the server stops; the log has them, the next start reads it");
			return status;
		}
		status = write_once(w, item);
	}
	if (atomic_exchange(&w->stuck, false))
		LOG_AT(w->options.logger, LOG_INFO, "disk has room again", "rows are written, status=%s", weir_status_name(status));
	return status;
}

static void deliver(void *arg)
{
	struct cold_write *item = arg;
	item->done(item);
}

/* The item may be gone when this returns. */
static void answer(struct cold_writer *w, struct cold_write *item)
{
	item->status = w->failed;
	item->err = w->err;
	callback_executor_post(&item->run_on, deliver, item);
}

static void write_item(struct cold_writer *w, struct cold_write *item)
{
	if (!w->failed && (w->failed = write_patiently(w, item)) != WEIR_OK) {
		w->err = item->err;
		if (w->failed != WEIR_E_NO_SPACE)
			LOG_AT(w->options.logger, LOG_ERROR, "rows cannot be written", "%s", w->err.text);
	}
	answer(w, item);
}

/* Takes everything queued now. */
static struct cold_write *take_all(struct cold_writer *w)
{
	pthread_mutex_lock(&w->lock);
	struct cold_write *first = w->first;
	w->first = NULL;
	w->last = &w->first;
	pthread_mutex_unlock(&w->lock);
	return first;
}

/* A flush of RocksDB always creates a file and costs an fsync. So one flush answers all flushes
 * requested by now, after the rest of the queue is written. */
static void flush_together(struct cold_writer *w, struct cold_write *flush)
{
	struct cold_write *others = NULL;
	for (struct cold_write *item = take_all(w), *next; item; item = next) {
		next = item->next;
		if (item->kind == COLD_WRITE_FLUSH) {
			item->next = others;
			others = item;
		} else {
			write_item(w, item);
		}
	}
	write_item(w, flush);
	for (struct cold_write *next; others; others = next) {
		next = others->next;
		answer(w, others);
	}
}

static void *run(void *arg)
{
	struct cold_writer *w = arg;
	for (struct cold_write *item; (item = take(w));) {
		if (item->kind == COLD_WRITE_FLUSH)
			flush_together(w, item);
		else
			write_item(w, item);
	}
	return NULL;
}

struct cold_writer *cold_writer_create(const struct cold_writer_options *options, weir_error *err)
{
	struct cold_writer *w = calloc(1, sizeof *w);
	if (!w) {
		weir_fail(err, WEIR_E_MEMORY, "the writer of rows: out of memory");
		return NULL;
	}
	w->options = *options;
	if (!w->options.retry_ms)
		w->options.retry_ms = RETRY_MS_DEFAULT;
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	deadline_cond_init(&w->changed);
	if (pthread_create(&w->thread, NULL, run, w) != 0) {
		weir_fail(err, WEIR_E_LIMIT, "the writer of rows: no thread could be started");
		pthread_mutex_destroy(&w->lock);
		pthread_cond_destroy(&w->changed);
		free(w);
		return NULL;
	}
	return w;
}

void cold_writer_submit(struct cold_writer *w, struct cold_write *item)
{
	item->next = NULL;
	item->status = WEIR_OK;
	pthread_mutex_lock(&w->lock);
	*w->last = item;
	w->last = &item->next;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

weir_status cold_writer_write_now(struct cold_writer *w, struct cold_write *item)
{
	return item->status = write_patiently(w, item);
}

bool cold_writer_is_stuck(const struct cold_writer *w)
{
	return atomic_load(&w->stuck);
}

void cold_writer_destroy(struct cold_writer *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
	free(w);
}
