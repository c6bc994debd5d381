/* Streams, events and graphs. A stream is a queue. Work runs only when the host waits. Random
 * choices then decide which stream runs, and how much of its work. */
#include <stdio.h>
#include <stdlib.h>

#include <utility>
#include <vector>

extern "C" {
#include "common/base/prng.h"
}

#include "tests/cuda_host/cuda_host.h"
#include "tests/cuda_host/grid.h"
#include "tests/cuda_host/streams.h"

#define BLOCK_THREADS_MAX 1024u
#define GRID_Y_MAX        65535u

struct cuda_host_event {
	size_t number; /* index in `moments` */
};

/* For each event ever created: how often it was recorded, and how many of these records its stream
 * has reached. */
struct moment {
	uint64_t recorded, reached;
};
static std::vector<struct moment> moments;

struct work {
	std::function<void()> run; /* empty: waits for an event */
	size_t event;
	uint64_t until;
};

typedef std::vector<std::function<void()>> graph_work;
struct cuda_host_graph {
	graph_work work;
};
struct cuda_host_graph_exec {
	graph_work work;
};

struct cuda_host_stream {
	std::vector<struct work> queue;
	size_t begun;       /* number of finished entries; the queue is cleared after the last */
	cudaError_t failed; /* permanent, as after a kernel's fault */
	cuda_host_graph *capture;
	bool capture_failed;
};

static std::vector<cudaStream_t> streams;
static struct prng order;
static size_t graph_launches;
static size_t graphs_under_way; /* launched and unfinished */

size_t cuda_host_graph_launches(void)
{
	return graph_launches;
}

/* --- Running queued work */

static bool can_go_on(const struct cuda_host_stream *s)
{
	if (s->queue.empty())
		return false;
	const struct work &next = s->queue[s->begun];
	return next.run || moments[next.event].reached >= next.until;
}

static void run_one(cudaStream_t s)
{
	const std::function<void()> run = std::move(s->queue[s->begun].run);
	if (++s->begun == s->queue.size()) {
		s->queue.clear();
		s->begun = 0;
	}
	if (run)
		run();
}

static size_t waits;

size_t cuda_host_waits(void)
{
	return waits;
}

/* Writes a line to the file that WEIR_CUDA_HOST_TRACE names at each wait of the host. */
static void trace_wait()
{
	static const char *const path = getenv("WEIR_CUDA_HOST_TRACE");
	static FILE *const out = path != NULL ? fopen(path, "a") : NULL;
	if (out != NULL) {
		fprintf(out, "wait with %zu graphs under way\n", graphs_under_way);
		fflush(out);
	}
}

static void run_until(const std::function<bool()> &done)
{
	if (!done()) {
		waits++;
		trace_wait();
	}
	while (!done()) {
		std::vector<cudaStream_t> ready;
		for (cudaStream_t s : streams)
			if (can_go_on(s))
				ready.push_back(s);
		if (ready.empty())
			cuda_host_die("streams wait for events that nobody will record");
		cudaStream_t chosen = ready[prng_below(&order, ready.size())];
		static const unsigned few_to_many[] = {1, 3, 9, 27, 81};
		unsigned most = few_to_many[prng_below(&order, 5)];
		do
			run_one(chosen);
		while (--most > 0 && can_go_on(chosen) && !done());
	}
}

static void run_stream(cudaStream_t stream)
{
	run_until([=]() { return stream->queue.empty(); });
}

void cuda_host_run_everything(void)
{
	for (cudaStream_t s : streams)
		run_stream(s);
}

/* --- Queueing */

bool cuda_host_ends_capture(void)
{
	bool any = false;
	for (cudaStream_t s : streams)
		if (s->capture != NULL)
			any = s->capture_failed = true;
	return any;
}

static cudaError_t push(cudaStream_t stream, std::function<void()> run)
{
	if (stream->capture == NULL)
		stream->queue.push_back({std::move(run), 0, 0});
	else if (stream->capture_failed)
		return cudaErrorStreamCaptureInvalidated;
	else
		stream->capture->work.push_back(std::move(run));
	return cudaSuccess;
}

void cuda_host_queue(cudaStream_t stream, std::function<void()> work)
{
	push(stream, [work = std::move(work)]() {
		cuda_host_open_memory();
		work();
		cuda_host_close_memory();
	});
}

static size_t brought;

size_t cuda_host_brought(void)
{
	return brought;
}

/* A copy from ordinary memory has read it on return. A copy to ordinary memory is complete on
 * return. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	MAY_FAIL("cudaMemcpyAsync");
	if ((kind != cudaMemcpyDeviceToHost && !cuda_host_in_memory(to)) ||
	    (kind != cudaMemcpyHostToDevice && !cuda_host_in_memory(from)))
		return cudaErrorInvalidValue;
	const void *host = kind == cudaMemcpyDeviceToHost ? to : kind == cudaMemcpyHostToDevice ? from : NULL;
	const bool ordinary = host != NULL && !cuda_host_is_pinned(host);
	if (ordinary)
		REFUSED_WHILE_CAPTURING();
	const cudaError_t code = push(stream, [=]() {
		memcpy(cuda_host_inner(to), cuda_host_inner(from), bytes);
		brought += kind == cudaMemcpyDeviceToHost ? bytes : 0;
	});
	if (ordinary)
		run_stream(stream);
	return code;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	MAY_FAIL("cudaMemsetAsync");
	if (!cuda_host_in_memory(p))
		return cudaErrorInvalidValue;
	return push(stream, [=]() { memset(cuda_host_inner(p), value, bytes); });
}

cudaError_t cuda_host_queue_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                   std::function<void()> thread)
{
	MAY_FAIL("launch");
	const uint64_t threads = (uint64_t)block.x * block.y * block.z;
	if (threads == 0 || threads > BLOCK_THREADS_MAX || grid.x == 0 || grid.y == 0 || grid.x > INT32_MAX || grid.y > GRID_Y_MAX)
		return cudaErrorInvalidConfiguration;
	return push(stream, [=]() {
		cuda_host_open_memory();
		cuda_host_run_grid(kernel, grid, block, shared_bytes, thread);
		cuda_host_close_memory();
	});
}

/* --- Streams */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	(void)flags;
	MAY_FAIL("cudaStreamCreateWithFlags");
	if (streams.empty())
		prng_seed(&order, cuda_host.seed);
	*stream = new cuda_host_stream();
	streams.push_back(*stream);
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	run_stream(stream);
	for (size_t i = 0; i < streams.size(); i++)
		if (streams[i] == stream)
			streams.erase(streams.begin() + (long)i);
	delete stream;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	MAY_FAIL("cudaStreamSynchronize");
	REFUSED_WHILE_CAPTURING();
	run_stream(stream);
	return stream->failed;
}

/* --- Events */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	(void)flags;
	MAY_FAIL("cudaEventCreateWithFlags");
	*event = new cuda_host_event{moments.size()};
	moments.push_back({0, 0});
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	delete event;
	return cudaSuccess;
}

/* Recording during a capture is not supported, as nobody needs it. */
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	MAY_FAIL("cudaEventRecord");
	if (stream->capture != NULL)
		REFUSED_WHILE_CAPTURING();
	const size_t e = event->number;
	const uint64_t now = ++moments[e].recorded;
	return push(stream, [=]() { moments[e].reached = now; });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	MAY_FAIL("cudaEventSynchronize");
	const size_t e = event->number;
	run_until([=]() { return moments[e].reached >= moments[e].recorded; });
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	(void)flags;
	MAY_FAIL("cudaStreamWaitEvent");
	if (stream->capture != NULL) {
		stream->capture_failed = true;
		return cudaErrorStreamCaptureIsolation;
	}
	stream->queue.push_back({NULL, event->number, moments[event->number].recorded});
	return cudaSuccess;
}

/* --- Graphs */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	(void)mode;
	MAY_FAIL("cudaStreamBeginCapture");
	REFUSED_WHILE_CAPTURING();
	stream->capture = new cuda_host_graph;
	stream->capture_failed = false;
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	*graph = NULL;
	if (stream->capture == NULL)
		return cudaErrorStreamCaptureUnmatched;
	cuda_host_graph *captured = stream->capture;
	stream->capture = NULL;
	if (!stream->capture_failed && !cuda_host_fails("cudaStreamEndCapture")) {
		*graph = captured;
		return cudaSuccess;
	}
	delete captured;
	MAY_FAIL("cudaStreamEndCapture");
	return cudaErrorStreamCaptureInvalidated;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	(void)flags;
	MAY_FAIL("cudaGraphInstantiate");
	*exec = new cuda_host_graph_exec{graph->work};
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	MAY_FAIL("cudaGraphLaunch");
	graph_launches++;
	graphs_under_way++;
	return push(stream, [work = exec->work]() {
		for (const auto &w : work)
			w();
		graphs_under_way--;
	});
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	delete graph;
	return cudaSuccess;
}

/* Unfinished launches continue. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	delete exec;
	return cudaSuccess;
}
