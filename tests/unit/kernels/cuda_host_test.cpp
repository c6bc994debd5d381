/* The emulated device itself: it behaves as a device does, and exposes errors that a device
 * hides. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

#include "kernels/cuda/launch.h"
#include "tests/cuda_host/cuda_host.h"

enum { THREADS = 96, BLOCKS = 5, N = THREADS * BLOCKS };

struct device {
	cudaStream_t stream;
	unsigned *memory; /* (N) */
	unsigned host[N];
};

static void device_open(struct device *d)
{
	cuda_host_reset();
	assert_int_equal(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), cudaSuccess);
	void *p;
	assert_int_equal(cudaMalloc(&p, sizeof d->host), cudaSuccess);
	d->memory = (unsigned *)p;
}

static void device_close(struct device *d)
{
	cudaFree(d->memory);
	cudaStreamDestroy(d->stream);
}

static void run(struct device *d, void (*kernel)(unsigned *), unsigned blocks, unsigned threads)
{
	assert_int_equal(cuda_host_launch("a kernel", dim3(blocks), dim3(threads), 0, d->stream, kernel, d->memory), cudaSuccess);
	assert_int_equal(cudaMemcpyAsync(d->host, d->memory, sizeof d->host, cudaMemcpyDeviceToHost, d->stream), cudaSuccess);
}

static void number_kernel(unsigned *out)
{
	out[thread_number()] = (unsigned)thread_number();
}

static void every_thread_runs_once(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	run(&d, number_kernel, BLOCKS, THREADS);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(d.host[i], i);
	device_close(&d);
}

static void reverse_kernel(unsigned *out)
{
	SHARED(unsigned, values, [THREADS]);
	for (unsigned round = 0; round < 4; round++) {
		values[threadIdx.x] = threadIdx.x * 10 + round;
		__syncthreads();
		out[thread_number()] = values[THREADS - 1 - threadIdx.x];
		__syncthreads();
	}
}

static void barriers_keep_a_block_together(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	for (cuda_host.seed = 1; cuda_host.seed < 5; cuda_host.seed++) {
		run(&d, reverse_kernel, BLOCKS, THREADS);
		for (unsigned i = 0; i < N; i++)
			assert_int_equal(d.host[i], (THREADS - 1 - i % THREADS) * 10 + 3);
	}
	device_close(&d);
}

static void hasty_kernel(unsigned *out)
{
	SHARED(unsigned, values, [THREADS]);
	values[threadIdx.x] = threadIdx.x;
	out[thread_number()] = values[THREADS - 1 - threadIdx.x]; /* a barrier is missing */
}

static void a_missing_barrier_shows(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	unsigned wrong = 0;
	run(&d, hasty_kernel, BLOCKS, THREADS);
	for (unsigned i = 0; i < N; i++)
		wrong += d.host[i] != THREADS - 1 - i % THREADS;
	assert_true(wrong > N / 4);
	device_close(&d);
}

static void overtaking_kernel(unsigned *out)
{
	SHARED(unsigned, value, [1]);
	out[thread_number()] = 1;
	for (unsigned round = 0; round < 8; round++) {
		if (threadIdx.x == 0)
			value[0] = round;
		__syncthreads();
		for (unsigned i = 0; i < 5; i++)
			__syncwarp();
		/* a barrier is missing: the first warp may already be in the next round */
		out[thread_number()] &= value[0] == round;
	}
}

static void a_warp_may_be_far_ahead_of_another(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	unsigned wrong = 0;
	run(&d, overtaking_kernel, BLOCKS, THREADS);
	for (unsigned i = 0; i < N; i++)
		wrong += d.host[i] != 1;
	assert_true(wrong > 0);
	device_close(&d);
}

static void lanes_kernel(unsigned *out)
{
	const unsigned lane = threadIdx.x % 32;
	const unsigned mask = lane < 16 ? 0xffffu : 0xffff0000u; /* two halves that diverge */
	unsigned sum = lane;
	for (int step = 8; step > 0; step /= 2)
		sum += __shfl_xor_sync(mask, sum, step);
	const unsigned last = __shfl_sync(ALL_LANES, lane, 31), next = __shfl_down_sync(ALL_LANES, lane, 1),
	               before = __shfl_up_sync(ALL_LANES, lane, 1);
	const unsigned odd = __ballot_sync(ALL_LANES, lane & 1);
	const bool all = __all_sync(ALL_LANES, lane < 32) && !__any_sync(ALL_LANES, lane > 31);
	__syncwarp();
	const bool right = sum == (lane < 16 ? 120u : 376u) && last == 31 && next == (lane < 31 ? lane + 1 : 31) &&
	                   before == (lane > 0 ? lane - 1 : 0) && odd == 0xaaaaaaaau && all && __popc(odd) == 16 && __clz(1) == 31 &&
	                   __ffs(8) == 4;
	out[thread_number()] = right;
}

static void lanes_exchange_values(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	for (cuda_host.seed = 1; cuda_host.seed < 5; cuda_host.seed++) {
		run(&d, lanes_kernel, BLOCKS, THREADS);
		for (unsigned i = 0; i < N; i++)
			assert_int_equal(d.host[i], 1);
	}
	device_close(&d);
}

static void votes_kernel(unsigned *out)
{
	const int some = __syncthreads_or(threadIdx.x == 3), none = __syncthreads_or(threadIdx.x > THREADS);
	const int every = __syncthreads_and(threadIdx.x < THREADS), count = __syncthreads_count(threadIdx.x % 2 == 0);
	out[thread_number()] = some && !none && every && count == THREADS / 2;
}

static void blocks_vote(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	run(&d, votes_kernel, BLOCKS, THREADS);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(d.host[i], 1);
	device_close(&d);
}

static void atomics_kernel(unsigned *out)
{
	if (threadIdx.x == 0)
		out[blockIdx.x] = 0;
	__syncthreads();
	atomicAdd(&out[blockIdx.x], 2u);
}

static void counts_are_exact(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	run(&d, atomics_kernel, BLOCKS, THREADS);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(d.host[i], 2 * THREADS);
	device_close(&d);
}

static void unwritten_kernel(unsigned *out)
{
	SHARED(float, values, [4]);
	unsigned *more = (unsigned *)cuda_host_shared_dynamic();
	const bool fresh = isnan(values[threadIdx.x % 4]) && more[threadIdx.x % 8] == UINT32_MAX;
	__syncthreads();
	values[threadIdx.x % 4] = 1;
	more[threadIdx.x % 8] = 1;
	out[thread_number()] = fresh;
}

static void memory_begins_as_nans(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	assert_int_equal(cudaMemcpyAsync(d.host, d.memory, sizeof d.host, cudaMemcpyDeviceToHost, d.stream), cudaSuccess);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(d.host[i], UINT32_MAX);
	assert_int_equal(cuda_host_launch("a kernel", dim3(BLOCKS), dim3(THREADS), 32, d.stream, unwritten_kernel, d.memory),
	                 cudaSuccess);
	assert_int_equal(cudaMemcpyAsync(d.host, d.memory, sizeof d.host, cudaMemcpyDeviceToHost, d.stream), cudaSuccess);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(d.host[i], 1);
	device_close(&d);
}

static void work_waits_until_it_is_waited_for(void **state)
{
	(void)state;
	struct device d;
	device_open(&d);
	void *pinned;
	assert_int_equal(cudaHostAlloc(&pinned, sizeof d.host, cudaHostAllocDefault), cudaSuccess);
	unsigned *here = (unsigned *)pinned;
	here[0] = 5;
	cudaMemsetAsync(d.memory, 0, sizeof d.host, d.stream);
	cudaMemcpyAsync(here, d.memory, sizeof d.host, cudaMemcpyDeviceToHost, d.stream);
	assert_int_equal(here[0], 5);
	cudaStreamSynchronize(d.stream);
	assert_int_equal(here[0], 0);
	cudaFreeHost(pinned);
	device_close(&d);
}

/* --- Streams, events, graphs */

static void add_kernel(unsigned *to, const unsigned *from)
{
	to[thread_number()] += from[thread_number()];
}

/* One stream copies numbers in, another adds them; `waits`: it waits for the copy. Returns true if
 * the sums are right. */
static bool adds_up(uint64_t seed, bool waits)
{
	struct device d;
	cudaStream_t in;
	cudaEvent_t there;
	void *host, *sums;
	device_open(&d);
	cudaStreamDestroy(d.stream);
	cuda_host.seed = seed;
	assert_int_equal(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking), cudaSuccess);
	assert_int_equal(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking), cudaSuccess);
	assert_int_equal(cudaEventCreateWithFlags(&there, cudaEventDisableTiming), cudaSuccess);
	assert_int_equal(cudaHostAlloc(&host, sizeof d.host, cudaHostAllocDefault), cudaSuccess);
	assert_int_equal(cudaMalloc(&sums, sizeof d.host), cudaSuccess);
	for (unsigned i = 0; i < N; i++)
		((unsigned *)host)[i] = i + 1;
	cudaMemsetAsync(sums, 0, sizeof d.host, d.stream);
	cudaMemcpyAsync(d.memory, host, sizeof d.host, cudaMemcpyHostToDevice, in);
	cudaEventRecord(there, in);
	if (waits)
		cudaStreamWaitEvent(d.stream, there, 0);
	cuda_host_launch("add", dim3(BLOCKS), dim3(THREADS), 0, d.stream, add_kernel, (unsigned *)sums, (const unsigned *)d.memory);
	cudaMemcpyAsync(d.host, sums, sizeof d.host, cudaMemcpyDeviceToHost, d.stream);
	bool right = true;
	for (unsigned i = 0; i < N; i++)
		right &= d.host[i] == i + 1;
	cudaEventDestroy(there);
	cudaStreamDestroy(in);
	cudaFreeHost(host);
	cudaFree(sums);
	device_close(&d);
	return right;
}

static void a_missing_wait_shows(void **state)
{
	(void)state;
	unsigned wrong = 0;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		assert_true(adds_up(seed, true));
		wrong += !adds_up(seed, false);
	}
	assert_true(wrong > 0 && wrong < 12); /* a lucky order hides the race */
}

static void an_event_is_reached_and_no_more(void **state)
{
	(void)state;
	struct device d;
	cudaEvent_t first;
	void *pinned;
	device_open(&d);
	assert_int_equal(cudaEventCreateWithFlags(&first, cudaEventDisableTiming), cudaSuccess);
	assert_int_equal(cudaHostAlloc(&pinned, 2 * sizeof(unsigned), cudaHostAllocDefault), cudaSuccess);
	unsigned *here = (unsigned *)pinned;
	here[0] = here[1] = 5;
	assert_int_equal(cudaEventSynchronize(first), cudaSuccess); /* never recorded: counts as done */
	cudaMemsetAsync(d.memory, 0, sizeof d.host, d.stream);
	cudaMemcpyAsync(&here[0], d.memory, sizeof *here, cudaMemcpyDeviceToHost, d.stream);
	cudaEventRecord(first, d.stream);
	cudaMemcpyAsync(&here[1], d.memory, sizeof *here, cudaMemcpyDeviceToHost, d.stream);
	cudaEventSynchronize(first);
	assert_int_equal(here[0], 0);
	assert_int_equal(here[1], 5);
	cudaStreamSynchronize(d.stream);
	assert_int_equal(here[1], 0);
	cudaEventDestroy(first);
	cudaFreeHost(pinned);
	device_close(&d);
}

static void graphs_do_again_what_was_captured(void **state)
{
	(void)state;
	struct device d;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	void *ones;
	device_open(&d);
	assert_int_equal(cudaMalloc(&ones, sizeof d.host), cudaSuccess);
	for (unsigned i = 0; i < N; i++)
		d.host[i] = 1;
	cudaMemcpyAsync(ones, d.host, sizeof d.host, cudaMemcpyHostToDevice, d.stream);
	cudaMemsetAsync(d.memory, 0, sizeof d.host, d.stream);
	assert_int_equal(cudaStreamBeginCapture(d.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
	for (unsigned i = 0; i < 2; i++)
		cuda_host_launch("add", dim3(BLOCKS), dim3(THREADS), 0, d.stream, add_kernel, d.memory, (const unsigned *)ones);
	assert_int_equal(cudaStreamEndCapture(d.stream, &graph), cudaSuccess);
	assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
	cudaGraphDestroy(graph);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(cudaGraphLaunch(exec, d.stream), cudaSuccess);
	cudaGraphExecDestroy(exec); /* a running graph continues */
	cudaMemcpyAsync(d.host, d.memory, sizeof d.host, cudaMemcpyDeviceToHost, d.stream);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(d.host[i], 6); /* not run while captured */
	cudaFree(ones);
	device_close(&d);
}

static void a_capture_refuses_what_a_graph_cannot_have(void **state)
{
	(void)state;
	struct device d;
	cudaStream_t other;
	cudaEvent_t event;
	cudaGraph_t graph;
	void *p;
	device_open(&d);
	assert_int_equal(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
	assert_int_equal(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
	cudaEventRecord(event, other);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(cudaStreamBeginCapture(d.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
		const cudaError_t code = i == 0   ? cudaMalloc(&p, 100)
		                         : i == 1 ? cudaStreamSynchronize(d.stream)
		                         : i == 2 ? cudaMemcpyAsync(d.memory, d.host, 4, cudaMemcpyHostToDevice, d.stream)
		                         : i == 3 ? cudaHostAlloc(&p, 100, cudaHostAllocDefault)
		                                  : cudaStreamWaitEvent(d.stream, event, 0);
		assert_int_equal(code, i < 4 ? cudaErrorStreamCaptureUnsupported : cudaErrorStreamCaptureIsolation);
		assert_int_equal(cudaMemsetAsync(d.memory, 0, 4, d.stream), cudaErrorStreamCaptureInvalidated);
		assert_int_equal(cudaStreamEndCapture(d.stream, &graph), cudaErrorStreamCaptureInvalidated);
		assert_null(graph);
	}
	assert_int_equal(cudaMemsetAsync(d.memory, 0, 4, d.stream), cudaSuccess);
	cudaEventDestroy(event);
	cudaStreamDestroy(other);
	device_close(&d);
}

/* --- Errors that end the program, each in its own process. */

/* Runs `body` in a child. Returns its exit status and its output. */
static int outcome(void (*body)(struct device *d), char *said, size_t bytes)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const int signals[] = {SIGSEGV, SIGABRT}; /* cmocka would catch them */
		for (int s : signals)
			signal(s, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		struct device d;
		device_open(&d);
		body(&d);
		_exit(0);
	}
	close(ends[1]);
	size_t n = 0;
	for (ssize_t got; n + 1 < bytes && (got = read(ends[0], said + n, bytes - 1 - n)) > 0;)
		n += (size_t)got;
	said[n] = '\0';
	close(ends[0]);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void diverged_kernel(unsigned *)
{
	if (threadIdx.x % 2 == 0)
		__syncthreads();
	else
		__syncthreads();
}
static void ended_kernel(unsigned *)
{
	if (threadIdx.x != 3)
		__syncthreads();
}
static void lane_ended_kernel(unsigned *)
{
	if (threadIdx.x != 3)
		__syncwarp();
}
static void lanes_diverged_kernel(unsigned *out)
{
	if (threadIdx.x % 2 == 0)
		out[0] = __shfl_sync(ALL_LANES, 1u, 0);
	else
		out[1] = __shfl_sync(ALL_LANES, 1u, 0);
}
static void not_taking_part_kernel(unsigned *out)
{
	if (threadIdx.x < 16)
		out[0] = __shfl_sync(0xffffu, 1u, 20);
}

static void diverge(struct device *d)
{
	run(d, diverged_kernel, 1, 32);
}
static void end_early(struct device *d)
{
	run(d, ended_kernel, 1, 32);
}
static void end_a_lane(struct device *d)
{
	run(d, lane_ended_kernel, 1, 32);
}
static void diverge_lanes(struct device *d)
{
	run(d, lanes_diverged_kernel, 1, 32);
}
static void read_who_is_not_there(struct device *d)
{
	run(d, not_taking_part_kernel, 1, 32);
}
static void give_host_memory(struct device *d)
{
	cuda_host_launch("a kernel", dim3(1), dim3(1), 0, d->stream, number_kernel, d->host);
}
static void touch_device_memory(struct device *d)
{
	*(volatile unsigned *)d->memory = 1;
}

static void what_is_wrong_ends_the_program(void **state)
{
	(void)state;
	static const struct {
		void (*body)(struct device *d);
		const char *says;
	} cases[] = {
	    {diverge, "threads diverged"},
	    {end_early, "1 of 32 threads have ended, and others wait at"},
	    {end_a_lane, "1 of 32 threads have ended, and others wait at"},
	    {diverge_lanes, "the lanes 0xffffffff of a warp diverged"},
	    {read_who_is_not_there, "a shuffle reads lane 20, which is not in its mask 0xffff"},
	    {give_host_memory, "argument 1 of a kernel is not in device memory"},
	    {touch_device_memory, ""}, /* a segmentation fault */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char said[4096];
		const int status = outcome(cases[i].body, said, sizeof said);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			fail_msg("case %zu ended well", i);
		if (strstr(said, cases[i].says) == NULL)
			fail_msg("case %zu: '%s' is not in '%s'", i, cases[i].says, said);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_thread_runs_once),
	    cmocka_unit_test(barriers_keep_a_block_together),
	    cmocka_unit_test(a_missing_barrier_shows),
	    cmocka_unit_test(a_warp_may_be_far_ahead_of_another),
	    cmocka_unit_test(lanes_exchange_values),
	    cmocka_unit_test(blocks_vote),
	    cmocka_unit_test(counts_are_exact),
	    cmocka_unit_test(memory_begins_as_nans),
	    cmocka_unit_test(work_waits_until_it_is_waited_for),
	    cmocka_unit_test(a_missing_wait_shows),
	    cmocka_unit_test(an_event_is_reached_and_no_more),
	    cmocka_unit_test(graphs_do_again_what_was_captured),
	    cmocka_unit_test(a_capture_refuses_what_a_graph_cannot_have),
	    cmocka_unit_test(what_is_wrong_ends_the_program),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
