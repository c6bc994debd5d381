/* Hashes the rows of partitions as they were when their streams (store_stream.h) began: a thread in the background, one stream after the other. The hash is a sum over the
 * rows, each hashed with its name, what stands behind it and its slots (row_batch.h), so that the order in which they come, from memory or below, does not count.
 *
 * Submit, ready and cancel come from the streams' owners, which may be several threads. */
#ifndef WEIR_SCRUB_READER_H
#define WEIR_SCRUB_READER_H

#include "server/store/store_stream.h"

struct scrub_reader;

/* The caller's, there until its stream has ended. */
struct scrub_read {
	struct store_stream *stream;
	/* Set when the stream's `ended` runs. */
	uint64_t rows;      /* the sum */
	weir_status status; /* E_CANCELLED too: `rows` says nothing */
	/* The reader's, under its lock. */
	bool is_ready, is_cancelled;
	struct scrub_read *next;
};

/* The thread starts with the first stream. NULL: out of memory. */
struct scrub_reader *scrub_reader_create(void);
/* Takes the stream over: it ends it. E_LIMIT: the thread could not be started, and the stream is the caller's still. */
weir_status scrub_reader_submit(struct scrub_reader *reader, struct scrub_read *read) WEIR_MUST_CHECK;
void scrub_reader_ready(struct scrub_reader *reader, struct scrub_read *read); /* store_stream_options.ready */
void scrub_reader_cancel(struct scrub_reader *reader, struct scrub_read *read);
/* What was submitted is cancelled. All ends have been posted when it returns. NULL is allowed. */
void scrub_reader_destroy(struct scrub_reader *reader);

#endif
