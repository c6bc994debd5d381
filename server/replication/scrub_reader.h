/* Hashes the rows of partitions as they were when their streams (store_stream.h) began. A
 * background thread takes one stream after the other. The hash is a sum over the rows. Each row is
 * hashed with its name, the data behind it and its slots (row_batch.h). So the order in which rows
 * come, from memory or below, does not matter.
 *
 * Submit, ready and cancel come from the streams' owners, which may be several threads. */
#ifndef WEIR_SCRUB_READER_H
#define WEIR_SCRUB_READER_H

#include "server/store/store_stream.h"

struct scrub_reader;

/* The caller owns it; it must exist until its stream has ended. */
struct scrub_read {
	struct store_stream *stream;
	/* Set when the stream's `ended` runs. */
	uint64_t rows;      /* the sum */
	weir_status status; /* E_CANCELLED as well: `rows` is meaningless */
	/* Private to the reader, under its lock. */
	bool is_ready, is_cancelled;
	struct scrub_read *next;
};

/* The first stream starts the thread. NULL: out of memory. */
struct scrub_reader *scrub_reader_create(void);
/* Takes over the stream and ends it. E_LIMIT: the thread could not be started; the stream remains
 * the caller's. */
weir_status scrub_reader_submit(struct scrub_reader *reader, struct scrub_read *read) WEIR_MUST_CHECK;
/* store_stream_options.ready */
void scrub_reader_ready(struct scrub_reader *reader, struct scrub_read *read);
void scrub_reader_cancel(struct scrub_reader *reader, struct scrub_read *read);
/* Cancels the submitted streams. When it returns, the ends of all streams have been posted. NULL
 * does nothing. */
void scrub_reader_destroy(struct scrub_reader *reader);

#endif
