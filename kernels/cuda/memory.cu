/* Device memory: a pool over cudaMalloc with a budget, a workspace for the ops of each stream, and
 * copies through pinned buffers.
 *
 * The pool. cudaMalloc and cudaFree wait for the device, so a freed block is kept and reused for a
 * size of the same class: at most an eighth larger than requested. It may be reused before the work
 * that used it has run: the stream that takes it waits for the others. When the budget or the
 * device is exhausted, unused blocks go back to the device before an allocation fails. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

#define CLASSES_PER_DOUBLING 8
#define MIB                  1048576.0

/* The size of the class of `bytes`. */
static size_t class_of(size_t bytes)
{
	size_t step = CUDA_ALIGNMENT;
	while (step * CLASSES_PER_DOUBLING * 2 <= bytes)
		step *= 2;
	return bytes == 0 ? CUDA_ALIGNMENT : (bytes + step - 1) / step * step;
}

static void forget(struct cuda_pool *pool, size_t i)
{
	pool->held -= pool->blocks[i].bytes;
	pool->blocks[i] = pool->blocks[--pool->count];
}

/* Returns unused blocks to the device. */
static void trim(struct cuda_backend *c)
{
	struct cuda_pool *pool = &c->pool;
	cuda_wait_for_all(c); /* pending work may still write them */
	for (size_t i = pool->count; i-- > 0;)
		if (!pool->blocks[i].used) {
			cudaFree(pool->blocks[i].at);
			forget(pool, i);
		}
}

static bool make_room_for_one(struct cuda_pool *pool)
{
	if (pool->count < pool->capacity)
		return true;
	const size_t capacity = pool->capacity == 0 ? 64 : 2 * pool->capacity;
	struct cuda_block *blocks = (struct cuda_block *)realloc(pool->blocks, capacity * sizeof *blocks);
	if (!blocks)
		return false;
	pool->blocks = blocks;
	pool->capacity = capacity;
	return true;
}

/* Keeps the failed allocation's error for sync. */
static void *too_little(struct cuda_backend *c, size_t bytes)
{
	const struct cuda_pool *pool = &c->pool;
	size_t available = 0, total = 0;
	const char *what = "train.device_memory is the budget: raise it, make data.batch smaller, or use device: cpu";
	/* the device has no more */
	if (pool->held + bytes <= pool->budget && cudaMemGetInfo(&available, &total) == cudaSuccess)
		what = "others have the rest: end other programs on the device (nvidia-smi shows them), make data.batch smaller, or use "
		       "device: cpu";
	weir_fail(
	    &c->shortness, WEIR_E_MEMORY,
	    "%s: out of memory: %.1f MiB were asked for, and %.1f MiB are in use, of a budget of %.1f MiB (the device has %.1f MiB "
	    "free of %.1f MiB); %s",
	    c->device.name, (double)bytes / MIB, (double)pool->used / MIB, (double)pool->budget / MIB, (double)available / MIB,
	    (double)total / MIB, what);
	return NULL;
}

static void *use(struct cuda_pool *pool, struct cuda_block *block)
{
	block->used = true;
	pool->used += block->bytes;
	pool->used_most = pool->used > pool->used_most ? pool->used : pool->used_most;
	return block->at;
}

void *cuda_pool_take(struct cuda_backend *c, size_t bytes)
{
	struct cuda_pool *pool = &c->pool;
	if (bytes > pool->budget)
		return too_little(c, bytes);
	const size_t size = class_of(bytes);
	for (size_t i = 0; i < pool->count; i++)
		if (!pool->blocks[i].used && pool->blocks[i].bytes == size) {
			cuda_join(c);
			return use(pool, &pool->blocks[i]);
		}
	if (pool->held + size > pool->budget)
		trim(c);
	if (pool->held + size > pool->budget || !make_room_for_one(pool))
		return too_little(c, bytes);
	void *p = NULL;
	cudaError_t code = cudaMalloc(&p, size);
	if (code == cudaErrorMemoryAllocation) {
		(void)cudaGetLastError(); /* else the next launch would report it */
		trim(c);
		code = cudaMalloc(&p, size);
	}
	if (code != cudaSuccess) {
		(void)cudaGetLastError();
		if (code != cudaErrorMemoryAllocation)
			cuda_failed(c, "cudaMalloc", code);
		return too_little(c, bytes);
	}
	pool->blocks[pool->count] = cuda_block{p, size, false};
	pool->held += size;
	return use(pool, &pool->blocks[pool->count++]);
}

void cuda_pool_give(struct cuda_backend *c, void *p)
{
	struct cuda_pool *pool = &c->pool;
	for (size_t i = 0; i < pool->count; i++)
		if (pool->blocks[i].at == p && pool->blocks[i].used) {
			pool->blocks[i].used = false;
			pool->used -= pool->blocks[i].bytes;
		}
}

void *cuda_buffer_alloc(struct backend *b, size_t bytes)
{
	struct cuda_backend *c = cuda_of(b);
	void *p = cuda_ok(c) ? cuda_pool_take(c, bytes) : NULL;
	if (!p)
		return NULL;
	if (bytes > 0 && !CUDA_TRY(c, cudaMemsetAsync(p, 0, bytes, c->stream))) {
		cuda_pool_give(c, p);
		return NULL;
	}
	return p;
}

void cuda_buffer_free(struct backend *b, void *p)
{
	cuda_pool_give(cuda_of(b), p);
}

/* A part of 0 bytes also has a place. */
static size_t aligned(size_t bytes)
{
	return bytes == 0 ? CUDA_ALIGNMENT : (bytes + CUDA_ALIGNMENT - 1) / CUDA_ALIGNMENT * CUDA_ALIGNMENT;
}

bool cuda_workspace(struct cuda_backend *c, size_t count, const size_t *sizes, void **parts)
{
	struct cuda_stream *s = &c->streams[c->chosen];
	size_t total = 0;
	for (size_t i = 0; i < count; i++)
		total += aligned(sizes[i]);
	if (!cuda_ok(c))
		return false;
	if (total > s->workspace_bytes) {
		if (c->chosen == STREAM_COMPUTE)
			cuda_forget_replays(&c->base); /* they contain its address */
		if (s->workspace)
			cuda_pool_give(c, s->workspace);
		s->workspace = cuda_pool_take(c, total);
		s->workspace_bytes = s->workspace ? total : 0;
		if (!s->workspace) {
			/* an op that failed for lack of memory is not done later either */
			if (cuda_ok(c))
				c->fault = c->shortness;
			return false;
		}
	}
#if defined(CUDA_HOST_EMULATED)
	/* exposes ops that rely on its contents */
	cudaMemsetAsync(s->workspace, 0xff, total, c->stream);
#endif
	unsigned char *at = (unsigned char *)s->workspace;
	for (size_t i = 0; i < count; i++) {
		parts[i] = at;
		at += aligned(sizes[i]);
	}
	return true;
}

const void *cuda_read_back(struct cuda_backend *c, const void *device, size_t bytes)
{
	CUDA_TRY(c, cudaMemcpyAsync(c->answer, device, bytes, cudaMemcpyDeviceToHost, c->stream));
	return CUDA_TRY(c, cudaStreamSynchronize(c->stream)) ? c->answer : NULL;
}

/* --- Pinned memory */

void *cuda_host_alloc(struct backend *b, size_t bytes)
{
	struct cuda_backend *c = cuda_of(b);
	struct cuda_pinned *p = cuda_ok(c) ? (struct cuda_pinned *)calloc(1, sizeof *p) : NULL;
	if (!p)
		return NULL;
	const size_t size = bytes > 0 ? bytes : 1;
	if (cudaHostAlloc((void **)&p->at, size, cudaHostAllocDefault) != cudaSuccess) {
		(void)cudaGetLastError(); /* else the next launch would report it */
		free(p);
		return NULL;
	}
	p->bytes = size;
	p->next = c->pinned;
	c->pinned = p;
	return memset(p->at, 0, size);
}

void cuda_host_free(struct backend *b, void *at)
{
	struct cuda_backend *c = cuda_of(b);
	for (struct cuda_pinned **p = &c->pinned; *p; p = &(*p)->next)
		if ((*p)->at == at) {
			struct cuda_pinned *gone = *p;
			*p = gone->next;
			cuda_wait_for_all(c); /* a copy of it may be under way */
			cudaFreeHost(gone->at);
			free(gone);
			return;
		}
}

static bool is_pinned(const struct cuda_backend *c, const void *at, size_t bytes)
{
	const unsigned char *from = (const unsigned char *)at;
	for (const struct cuda_pinned *p = c->pinned; p; p = p->next)
		if (from >= p->at && from + bytes <= p->at + p->bytes)
			return true;
	return false;
}

/* --- Copies. Ordinary memory goes through pinned buffers in turn: while one is under way, the next
 * is filled or emptied. */

static struct cuda_stage *stage_of(struct cuda_backend *c, unsigned turn)
{
	return &c->stages[turn % CUDA_STAGES];
}

/* The next buffer in turn, after its previous copy has ended; NULL after a failure. */
static struct cuda_stage *next_stage(struct cuda_backend *c)
{
	struct cuda_stage *stage = stage_of(c, c->stage_turn++);
	return CUDA_TRY(c, cudaEventSynchronize(stage->done)) ? stage : NULL;
}

void cuda_to_device(struct backend *b, void *device, const void *host, size_t bytes)
{
	struct cuda_backend *c = cuda_of(b);
	const unsigned char *from = (const unsigned char *)host;
	unsigned char *to = (unsigned char *)device;
	if (is_pinned(c, host, bytes)) {
		CUDA_TRY(c, cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, c->stream));
		return;
	}
	while (bytes > 0 && cuda_ok(c)) {
		struct cuda_stage *stage = next_stage(c);
		const size_t piece = bytes < CUDA_STAGE_BYTES ? bytes : CUDA_STAGE_BYTES;
		if (!stage)
			return;
		memcpy(stage->at, from, piece);
		CUDA_TRY(c, cudaMemcpyAsync(to, stage->at, piece, cudaMemcpyHostToDevice, c->stream));
		CUDA_TRY(c, cudaEventRecord(stage->done, c->stream));
		from += piece;
		to += piece;
		bytes -= piece;
	}
}

void cuda_to_host_later(struct backend *b, void *host, const void *device, size_t bytes)
{
	struct cuda_backend *c = cuda_of(b);
	assert(bytes == 0 || is_pinned(c, host, bytes));
	CUDA_TRY(c, cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, c->stream));
}

void cuda_to_host(struct backend *b, void *host, const void *device, size_t bytes)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t pieces = (bytes + CUDA_STAGE_BYTES - 1) / CUDA_STAGE_BYTES;
	if (is_pinned(c, host, bytes)) {
		cuda_to_host_later(b, host, device, bytes);
		CUDA_TRY(c, cudaStreamSynchronize(c->stream));
		return;
	}
	/* piece i is requested before piece i - 1 is copied out */
	for (size_t i = 0; i <= pieces && cuda_ok(c); i++) {
		struct cuda_stage *before = stage_of(c, c->stage_turn - 1);
		if (i < pieces) {
			struct cuda_stage *stage = next_stage(c);
			const size_t at = i * CUDA_STAGE_BYTES, size = bytes - at < CUDA_STAGE_BYTES ? bytes - at : CUDA_STAGE_BYTES;
			if (!stage)
				return;
			CUDA_TRY(c, cudaMemcpyAsync(stage->at, (const unsigned char *)device + at, size, cudaMemcpyDeviceToHost, c->stream));
			CUDA_TRY(c, cudaEventRecord(stage->done, c->stream));
		}
		if (i > 0) {
			const size_t at = (i - 1) * CUDA_STAGE_BYTES, size = bytes - at < CUDA_STAGE_BYTES ? bytes - at : CUDA_STAGE_BYTES;
			if (CUDA_TRY(c, cudaEventSynchronize(before->done)))
				memcpy((unsigned char *)host + at, before->at, size);
		}
	}
}

/* --- Opening and closing */

static bool set_budget(struct cuda_backend *c, uint64_t budget_bytes)
{
	size_t available = 0, total = 0;
	if (!CUDA_TRY(c, cudaMemGetInfo(&available, &total)))
		return false;
	c->pool.budget = budget_bytes > 0 ? (size_t)budget_bytes : (size_t)((double)available * CUDA_BUDGET_SHARE);
	if (available < CUDA_MEMORY_MIN)
		weir_fail(
		    &c->fault, WEIR_E_MEMORY,
		    "%s has %.1f MiB free of %.1f MiB, and %.0f MiB are needed at least: end other programs on it (nvidia-smi shows "
		    "them), choose another device, or use device: cpu",
		    c->device.name, (double)available / MIB, (double)total / MIB, (double)CUDA_MEMORY_MIN / MIB);
	else if (c->pool.budget > available)
		weir_fail(&c->fault, WEIR_E_MEMORY,
		          "%s has %.1f MiB free of %.1f MiB, and train.device_memory is %.1f MiB: make it smaller, or auto, end other "
		          "programs on the device (nvidia-smi shows them), or use device: cpu",
		          c->device.name, (double)available / MIB, (double)total / MIB, (double)c->pool.budget / MIB);
	return cuda_ok(c);
}

bool cuda_memory_open(struct cuda_backend *c, uint64_t budget_bytes)
{
	if (!set_budget(c, budget_bytes))
		return false;
	CUDA_TRY(c, cudaHostAlloc(&c->answer, CUDA_ANSWER_BYTES, cudaHostAllocDefault));
	for (unsigned i = 0; i < CUDA_STAGES; i++) {
		CUDA_TRY(c, cudaHostAlloc((void **)&c->stages[i].at, CUDA_STAGE_BYTES, cudaHostAllocDefault));
		CUDA_TRY(c, cudaEventCreateWithFlags(&c->stages[i].done, cudaEventDisableTiming));
	}
	return cuda_ok(c);
}

void cuda_memory_close(struct cuda_backend *c)
{
	for (size_t i = 0; i < c->pool.count; i++)
		cudaFree(c->pool.blocks[i].at);
	free(c->pool.blocks);
	while (c->pinned)
		cuda_host_free(&c->base, c->pinned->at);
	cudaFreeHost(c->answer);
	for (unsigned i = 0; i < CUDA_STAGES; i++) {
		cudaFreeHost(c->stages[i].at);
		if (c->stages[i].done)
			cudaEventDestroy(c->stages[i].done);
	}
}
