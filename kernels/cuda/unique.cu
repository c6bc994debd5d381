/* Distinct keys of a batch in order of first use, with the same numbers as ../unique.c. Keys are
 * read from the host, and the results are written to the host; all of it runs on STREAM_IN, beside
 * the computing stream. For few keys the host is faster than the launches.
 *
 * Uses are positions in the batch. A slot of an open-addressed table stands for a key, and holds
 * the least position of its uses so far. A key's slot depends on the order of threads; the slot's
 * final contents do not. Then first uses are numbered in order: tiles of uses count theirs, one
 * block adds up the counts, and tiles number them. */
#include "kernels/cuda/launch.h"

#define KEYS_LEAST ((size_t)1 << 15) /* fewer stay on the host */
#define KEYS_MOST  ((size_t)1 << 30) /* so that a table of twice as many slots has 32-bit indices */
#define FREE       0xffffffffu
#define ROUNDS     8u
#define TILE       (ROUNDS * CUDA_THREADS) /* uses */
#define WARPS      (CUDA_THREADS / CUDA_LANES)

static __device__ inline uint32_t hash_of(uint64_t key)
{
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(key ^ key >> 32);
}

/* table (mask + 1), FREE at first; slot (n): the slot of each use's key. */
static __global__ void insert_kernel(uint32_t *table, uint32_t mask, uint32_t *slot, const uint64_t *keys, size_t n)
{
	const size_t i = thread_number();
	if (i >= n)
		return;
	const uint64_t key = keys[i];
	const uint32_t use = (uint32_t)i;
	uint32_t at = hash_of(key) & mask;
	for (;; at = (at + 1) & mask) {
		uint32_t other = table[at];
		if (other == FREE)
			other = atomicCAS(&table[at], FREE, use);
		if (other == FREE)
			break;
		if (keys[other] != key)
			continue;
		if (use < other)
			atomicMin(&table[at], use);
		break;
	}
	slot[i] = at;
}

static __device__ inline bool is_first(const uint32_t *table, const uint32_t *slot, size_t i, size_t n)
{
	return i < n && table[slot[i]] == (uint32_t)i;
}

/* counts (blocks): first uses in each tile. */
static __global__ void count_kernel(uint32_t *counts, const uint32_t *table, const uint32_t *slot, size_t n)
{
	uint32_t count = 0;
	for (unsigned k = 0; k < ROUNDS; k++)
		count +=
		    (uint32_t)__syncthreads_count(is_first(table, slot, (size_t)blockIdx.x * TILE + k * CUDA_THREADS + threadIdx.x, n));
	if (threadIdx.x == 0)
		counts[blockIdx.x] = count;
}

/* The number of the block's threads before this one with a vote; *all: the number with a vote.
 * sums (WARPS) is shared memory. All threads take part. */
static __device__ inline uint32_t votes_before(bool vote, uint32_t *sums, uint32_t *all)
{
	const unsigned lane = threadIdx.x % CUDA_LANES, warp = threadIdx.x / CUDA_LANES;
	const uint32_t votes = __ballot_sync(ALL_LANES, vote);
	__syncthreads(); /* all threads have read the previous sums */
	if (lane == 0)
		sums[warp] = (uint32_t)__popc(votes);
	__syncthreads();
	uint32_t before = (uint32_t)__popc(votes & ((1u << lane) - 1));
	*all = 0;
	for (unsigned w = 0; w < WARPS; w++) {
		before += w < warp ? sums[w] : 0;
		*all += sums[w];
	}
	return before;
}

/* One block: counts (n) become the sums of those before them, and counts[n] the total. */
static __global__ void add_up_kernel(uint32_t *counts, size_t n)
{
	SHARED(uint32_t, sums, [CUDA_THREADS]);
	uint32_t before = 0;
	for (size_t first = 0; first < n; first += CUDA_THREADS) {
		const size_t i = first + threadIdx.x;
		const uint32_t count = i < n ? counts[i] : 0;
		__syncthreads();
		sums[threadIdx.x] = count;
		for (unsigned step = 1; step < CUDA_THREADS; step *= 2) {
			__syncthreads();
			const uint32_t more = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
			__syncthreads();
			sums[threadIdx.x] += more;
		}
		__syncthreads();
		if (i < n)
			counts[i] = before + sums[threadIdx.x] - count;
		before += sums[CUDA_THREADS - 1];
	}
	if (threadIdx.x == 0)
		counts[n] = before;
}

/* number (n): set for first uses only; counts: the output of add_up_kernel. */
static __global__ void number_kernel(uint32_t *number, uint64_t *unique_keys, const uint32_t *counts, const uint32_t *table,
                                     const uint32_t *slot, const uint64_t *keys, size_t n)
{
	SHARED(uint32_t, sums, [WARPS]);
	uint32_t before = counts[blockIdx.x], all;
	for (unsigned k = 0; k < ROUNDS; k++) {
		const size_t i = (size_t)blockIdx.x * TILE + k * CUDA_THREADS + threadIdx.x;
		const bool first = is_first(table, slot, i, n);
		const uint32_t mine = before + votes_before(first, sums, &all);
		if (first) {
			number[i] = mine;
			unique_keys[mine] = keys[i];
		}
		before += all;
	}
}

/* slot (n) becomes the index. */
static __global__ void index_kernel(uint32_t *slot, const uint32_t *table, const uint32_t *number, size_t n)
{
	const size_t i = thread_number();
	if (i < n)
		slot[i] = number[table[slot[i]]];
}

enum part { KEYS, UNIQUE_KEYS, TABLE, SLOT, NUMBER, COUNTS, PARTS };

/* False: a failure, which is kept. */
static bool find(struct cuda_backend *c, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index, size_t *count)
{
	const size_t tiles = (n + TILE - 1) / TILE;
	uint32_t slots = 1;
	while (slots < 2 * n)
		slots *= 2;
	size_t sizes[PARTS];
	sizes[KEYS] = sizes[UNIQUE_KEYS] = n * sizeof *keys;
	sizes[TABLE] = slots * sizeof(uint32_t);
	sizes[SLOT] = sizes[NUMBER] = n * sizeof *index;
	sizes[COUNTS] = (tiles + 1) * sizeof(uint32_t);
	void *parts[PARTS];
	if (!cuda_workspace(c, PARTS, sizes, parts))
		return false;
	uint64_t *there = (uint64_t *)parts[KEYS], *distinct = (uint64_t *)parts[UNIQUE_KEYS];
	uint32_t *table = (uint32_t *)parts[TABLE], *slot = (uint32_t *)parts[SLOT], *number = (uint32_t *)parts[NUMBER],
	         *counts = (uint32_t *)parts[COUNTS];
	cuda_to_device(&c->base, there, keys, sizes[KEYS]);
	CUDA_TRY(c, cudaMemsetAsync(table, 0xff, sizes[TABLE], c->stream));
	LAUNCH(c, insert_kernel, blocks_for(c, n), CUDA_THREADS, table, slots - 1, slot, there, n);
	LAUNCH(c, count_kernel, dim3((unsigned)tiles), CUDA_THREADS, counts, table, slot, n);
	LAUNCH(c, add_up_kernel, dim3(1), CUDA_THREADS, counts, tiles);
	LAUNCH(c, number_kernel, dim3((unsigned)tiles), CUDA_THREADS, number, distinct, counts, table, slot, there, n);
	LAUNCH(c, index_kernel, blocks_for(c, n), CUDA_THREADS, slot, table, number, n);
	const uint32_t *found = (const uint32_t *)cuda_read_back(c, counts + tiles, sizeof *found);
	if (!found)
		return false;
	*count = *found;
	cuda_to_host(&c->base, unique_keys, distinct, *count * sizeof *unique_keys);
	cuda_to_host(&c->base, index, slot, n * sizeof *index);
	return cuda_ok(c);
}

/* After a failure, which the next sync reports, the host finds the keys. */
size_t cuda_unique(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index)
{
	struct cuda_backend *c = cuda_of(b);
	size_t count = 0;
	if (n < KEYS_LEAST || n > KEYS_MOST)
		return unique_of(&c->table, keys, n, unique_keys, index);
	const enum backend_stream before = cuda_choose_stream(b, STREAM_IN);
	const bool is_found = find(c, keys, n, unique_keys, index, &count);
	cuda_choose_stream(b, before);
	return is_found ? count : unique_of(&c->table, keys, n, unique_keys, index);
}
