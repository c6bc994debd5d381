#include "server/replication/scrub_reader.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/hash.h"

#define READER_NICE 10

struct scrub_reader {
	pthread_t thread;
	pthread_mutex_t lock; /* guards the fields below, and the private ones of scrub_read */
	pthread_cond_t changed;
	struct scrub_read *first, **last;
	bool started, stopping;
};

static uint64_t hash_of(const struct row_batch *b)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < b->count; i++) {
		const struct row_item *item = &b->items[i];
		sum += hash_bytes(b->data + item->offset, item->bytes, hash_u64(item->key) ^ item->table);
	}
	return sum;
}

/* Waits until the stream's owner has sent more. False: it is cancelled. */
static bool wait_for_more(struct scrub_reader *reader, struct scrub_read *read)
{
	pthread_mutex_lock(&reader->lock);
	while (!read->is_ready && !read->is_cancelled && !reader->stopping)
		pthread_cond_wait(&reader->changed, &reader->lock);
	const bool goes_on = !read->is_cancelled && !reader->stopping;
	read->is_ready = false;
	pthread_mutex_unlock(&reader->lock);
	return goes_on;
}

static weir_status read_all(struct scrub_reader *reader, struct scrub_read *read)
{
	weir_error err = {0};
	weir_status status = WEIR_OK;
	while (!status) {
		struct row_batch rows;
		status = store_stream_next(read->stream, &rows, &err);
		if (status)
			break;
		read->rows += hash_of(&rows);
		if (rows.count == 0 && !wait_for_more(reader, read))
			status = WEIR_E_CANCELLED;
		row_batch_destroy(&rows);
	}
	return status == WEIR_E_NOT_FOUND ? WEIR_OK : status;
}

/* NULL: the queue is empty, and the reader is stopping. */
static struct scrub_read *take(struct scrub_reader *reader)
{
	pthread_mutex_lock(&reader->lock);
	while (!reader->first && !reader->stopping)
		pthread_cond_wait(&reader->changed, &reader->lock);
	struct scrub_read *read = reader->first;
	if (read && !(reader->first = read->next))
		reader->last = &reader->first;
	pthread_mutex_unlock(&reader->lock);
	return read;
}

static void *run(void *arg)
{
	struct scrub_reader *reader = arg;
	/* of this thread: nobody waits for it */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), READER_NICE);
	for (struct scrub_read *read; (read = take(reader));) {
		read->status = read_all(reader, read);
		store_stream_close(read->stream);
	}
	return NULL;
}

struct scrub_reader *scrub_reader_create(void)
{
	struct scrub_reader *reader = calloc(1, sizeof *reader);
	if (!reader)
		return NULL;
	reader->last = &reader->first;
	pthread_mutex_init(&reader->lock, NULL);
	pthread_cond_init(&reader->changed, NULL);
	return reader;
}

weir_status scrub_reader_submit(struct scrub_reader *reader, struct scrub_read *read)
{
	read->next = NULL;
	read->rows = 0;
	read->is_ready = read->is_cancelled = false;
	pthread_mutex_lock(&reader->lock);
	if (!reader->started)
		reader->started = pthread_create(&reader->thread, NULL, run, reader) == 0;
	const bool started = reader->started;
	if (started) {
		*reader->last = read;
		reader->last = &read->next;
		pthread_cond_broadcast(&reader->changed);
	}
	pthread_mutex_unlock(&reader->lock);
	return started ? WEIR_OK : WEIR_E_LIMIT;
}

void scrub_reader_ready(struct scrub_reader *reader, struct scrub_read *read)
{
	pthread_mutex_lock(&reader->lock);
	read->is_ready = true;
	pthread_cond_broadcast(&reader->changed);
	pthread_mutex_unlock(&reader->lock);
}

void scrub_reader_cancel(struct scrub_reader *reader, struct scrub_read *read)
{
	pthread_mutex_lock(&reader->lock);
	read->is_cancelled = true;
	pthread_cond_broadcast(&reader->changed);
	pthread_mutex_unlock(&reader->lock);
}

void scrub_reader_destroy(struct scrub_reader *reader)
{
	if (!reader)
		return;
	pthread_mutex_lock(&reader->lock);
	reader->stopping = true;
	pthread_cond_broadcast(&reader->changed);
	pthread_mutex_unlock(&reader->lock);
	if (reader->started)
		pthread_join(reader->thread, NULL);
	pthread_mutex_destroy(&reader->lock);
	pthread_cond_destroy(&reader->changed);
	free(reader);
}
