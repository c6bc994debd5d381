/* Streams and marks. A mark is an event, created when the mark is first set; an event that was
 * never recorded counts as done. */
#include "kernels/cuda/cuda.h"

bool cuda_streams_open(struct cuda_backend *c)
{
	for (struct cuda_stream &s : c->streams) {
		CUDA_TRY(c, cudaStreamCreateWithFlags(&s.at, cudaStreamNonBlocking));
		CUDA_TRY(c, cudaEventCreateWithFlags(&s.joined, cudaEventDisableTiming));
	}
	c->stream = c->streams[STREAM_COMPUTE].at;
	return cuda_ok(c);
}

void cuda_streams_close(struct cuda_backend *c)
{
	for (struct cuda_stream &s : c->streams) {
		if (s.joined)
			cudaEventDestroy(s.joined);
		if (s.at)
			cudaStreamDestroy(s.at);
	}
}

enum backend_stream cuda_choose_stream(struct backend *b, enum backend_stream s)
{
	struct cuda_backend *c = cuda_of(b);
	const enum backend_stream before = c->chosen;
	c->chosen = s;
	c->stream = c->streams[s].at;
	return before;
}

void cuda_join(struct cuda_backend *c)
{
	for (struct cuda_stream &s : c->streams)
		if (s.at != c->stream) {
			CUDA_TRY(c, cudaEventRecord(s.joined, s.at));
			CUDA_TRY(c, cudaStreamWaitEvent(c->stream, s.joined, 0));
		}
}

void cuda_wait_for_all(struct cuda_backend *c)
{
	for (struct cuda_stream &s : c->streams) {
		const cudaError_t code = s.at ? cudaStreamSynchronize(s.at) : cudaSuccess;
		if (code != cudaSuccess)
			cuda_failed(c, "cudaStreamSynchronize", code);
	}
}

/* --- Marks */

void cuda_set_mark(struct backend *b, struct backend_mark *m)
{
	struct cuda_backend *c = cuda_of(b);
	cudaEvent_t event = (cudaEvent_t)m->event;
	if (!event && CUDA_TRY(c, cudaEventCreateWithFlags(&event, cudaEventDisableTiming)))
		m->event = event;
	if (event)
		CUDA_TRY(c, cudaEventRecord(event, c->stream));
}

void cuda_free_mark(struct backend *b, struct backend_mark *m)
{
	(void)b;
	if (m->event)
		cudaEventDestroy((cudaEvent_t)m->event);
	m->event = NULL;
}

void cuda_follow_mark(struct backend *b, const struct backend_mark *m)
{
	struct cuda_backend *c = cuda_of(b);
	if (m->event)
		CUDA_TRY(c, cudaStreamWaitEvent(c->stream, (cudaEvent_t)m->event, 0));
}

/* --- Waiting */

/* Reports the first failure, or the last failed allocation. */
static weir_status tell(struct cuda_backend *c, weir_error *err)
{
	if (!cuda_ok(c))
		return weir_fail(err, c->fault.status, "%s", c->fault.text);
	if (c->shortness.status != WEIR_OK) {
		const weir_error told = c->shortness;
		c->shortness.status = WEIR_OK;
		return weir_fail(err, told.status, "%s", told.text);
	}
	return WEIR_OK;
}

weir_status cuda_await_mark(struct backend *b, const struct backend_mark *m, weir_error *err)
{
	struct cuda_backend *c = cuda_of(b);
	if (m->event)
		CUDA_TRY(c, cudaEventSynchronize((cudaEvent_t)m->event));
	return tell(c, err);
}

weir_status cuda_sync_stream(struct backend *b, weir_error *err)
{
	struct cuda_backend *c = cuda_of(b);
	CUDA_TRY(c, cudaStreamSynchronize(c->stream));
	return tell(c, err);
}

weir_status cuda_sync(struct backend *b, weir_error *err)
{
	struct cuda_backend *c = cuda_of(b);
	cuda_wait_for_all(c);
	return tell(c, err);
}
