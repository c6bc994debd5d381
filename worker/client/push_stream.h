/* A batch's push that leaves chunk by chunk, in the order in which the chunks of one dense table
 * are computed, last layer first. Its parts are those of weir_push, each is sent once its values
 * are there, and the batch counts each in the same way: whoever executes the batch again, in one
 * push or in a stream, sends what the servers lack. One thread at a time uses a stream. */
#ifndef WEIR_PUSH_STREAM_H
#define WEIR_PUSH_STREAM_H

#include <stdbool.h>

#include "weir/weir.h"

struct push_stream;

/* Plans the push of a batch that weir_push would take; the batch itself is not touched yet.
 * `layered`: the item of a synchronous dense table whose chunks come one by one; all others have
 * their keys now, and their values at the close. Tables whose codec looks at the whole gradient,
 * keeps part of it back, or sends a share of the rows cannot be in it: see push_streams. Other
 * failures are those of weir_push. The memory of the items' keys and values is borrowed until
 * push_stream_abort, or until the ticket is waited for. */
weir_status push_stream_open(struct push_stream **out, weir_client *client, const weir_push_item *items, size_t count,
                             size_t layered, const weir_push_options *options, weir_error *err);
/* Begins the push. If it fails, the caller still aborts s. */
weir_status push_stream_begin(struct push_stream *s, const weir_batch *batch, weir_ticket *ticket, weir_error *err);
/* Of a push that has begun. These chunks are final: sends the parts that they complete. Blocks as
 * weir_push does. E_NOT_FINITE: no part with them is sent, nor any later one; close the stream. */
weir_status push_stream_chunks(struct push_stream *s, const uint64_t *chunks, size_t count, weir_error *err);
/* Of a push that has begun. The remaining chunks and the other items are final, too: sends the
 * rest. Frees s. E_NOT_FINITE: there is a NaN or an infinity among the values. Then the parts that
 * were sent count as sent, and the batch weighs 0 in its step, so that nothing of it takes effect.
 * The ticket is to be waited for, and says the same. */
weir_status push_stream_close(struct push_stream *s, weir_error *err);
/* The batch cannot be completed: what was sent stays, and the ticket, if there is one, fails. Frees
 * s; NULL: no effect. */
void push_stream_abort(struct push_stream *s);

/* Whether a push to a table of this kind can be part of a stream. */
bool push_streams(const weir_table_spec *spec);

#endif
