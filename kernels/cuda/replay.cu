/* Runs of ops as CUDA graphs. The first time, a run is issued as it is: its workspace grows to the
 * size it needs, and kernels are loaded. The second time it is captured instead. From then on it is
 * one launch. A capture holds the pointers of the ops' arguments and of the workspace: when the
 * workspace moves, all graphs are dropped.
 *
 * If a capture fails, its run is issued op by op, then and later; info reports the failure. On a
 * broken device, issuing also fails, for good. */
#include <assert.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

static void discard(struct cuda_graph *g)
{
	if (g->whole)
		cudaGraphExecDestroy(g->whole); /* a running one completes */
	*g = cuda_graph{};
}

void cuda_forget_replays(struct backend *b)
{
	for (struct cuda_graph &g : cuda_of(b)->graphs)
		discard(&g);
}

static struct cuda_graph *find(struct cuda_backend *c, const void *key, size_t bytes)
{
	for (struct cuda_graph &g : c->graphs)
		if (g.used > 0 && g.key_bytes == bytes && memcmp(g.key, key, bytes) == 0)
			return &g;
	return NULL;
}

/* Replaces the least recently used entry. */
static void remember(struct cuda_backend *c, const void *key, size_t bytes)
{
	struct cuda_graph *oldest = &c->graphs[0];
	for (struct cuda_graph &g : c->graphs)
		if (g.used < oldest->used)
			oldest = &g;
	discard(oldest);
	memcpy(oldest->key, key, bytes);
	oldest->key_bytes = bytes;
	oldest->used = ++c->replay_turn;
}

/* The ops that `issue` issues, as a graph; NULL after a failure, which is kept. */
static cudaGraphExec_t capture(struct cuda_backend *c, void (*issue)(void *arg), void *arg)
{
	cudaGraph_t graph = NULL;
	cudaGraphExec_t whole = NULL;
	if (!CUDA_TRY(c, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal)))
		return NULL;
	issue(arg);
	/* also after a failure, or the stream would go on capturing */
	const cudaError_t code = cudaStreamEndCapture(c->stream, &graph);
	if (cuda_try(c, "cudaStreamEndCapture", cuda_ok(c) ? code : cudaSuccess))
		CUDA_TRY(c, cudaGraphInstantiate(&whole, graph, 0));
	if (graph)
		cudaGraphDestroy(graph);
	return whole;
}

/* A failure of the capture alone costs only speed. */
static void make(struct cuda_backend *c, struct cuda_graph *g, void (*issue)(void *arg), void *arg)
{
	const weir_error shortness = c->shortness;
	g->whole = capture(c, issue, arg);
	if (cuda_ok(c))
		return;
	g->refused = true;
	c->not_replayed = c->fault;
	c->fault.status = WEIR_OK;
	c->shortness = shortness;
	(void)cudaGetLastError(); /* else the next launch would report it */
}

void cuda_replay(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg)
{
	struct cuda_backend *c = cuda_of(b);
	assert(c->chosen == STREAM_COMPUTE && bytes <= BACKEND_REPLAY_KEY_BYTES);
	if (!cuda_ok(c))
		return;
	struct cuda_graph *g = find(c, key, bytes);
	if (!g) {
		issue(arg);
		/* after `issue`: if it grew its workspace, all runs were forgotten */
		remember(c, key, bytes);
		return;
	}
	g->used = ++c->replay_turn;
	if (!g->whole && !g->refused)
		make(c, g, issue, arg);
	if (!g->whole) {
		issue(arg);
		return;
	}
	CUDA_TRY(c, cudaGraphLaunch(g->whole, c->stream));
	c->replays++;
}
