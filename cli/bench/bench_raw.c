/* The limits of this machine: memcpy, one loopback TCP connection, fused multiply-adds. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cli/bench/bench.h"

enum { RAW_SOURCE_BYTES = 64 << 20, RAW_CHUNK_BYTES = 1 << 20, RAW_ALIGN = 4096, FMA_ROUNDS = 20000000, FMA_THREADS_MAX = 256 };

/* --- memcpy */

weir_status raw_memcpy_init(struct raw_memcpy *m, size_t bytes, weir_error *err)
{
	bytes = (bytes + RAW_ALIGN - 1) / RAW_ALIGN * RAW_ALIGN;
	*m = (struct raw_memcpy){.from = aligned_alloc(RAW_ALIGN, bytes), .to = aligned_alloc(RAW_ALIGN, bytes), .bytes = bytes};
	if (!m->from || !m->to) {
		raw_memcpy_destroy(m);
		return weir_fail(err, WEIR_E_MEMORY, "no memory for two buffers of %zu bytes", bytes);
	}
	memset(m->from, 1, bytes);
	memset(m->to, 2, bytes);
	return WEIR_OK;
}

void raw_memcpy_destroy(struct raw_memcpy *m)
{
	free(m->from);
	free(m->to);
	*m = (struct raw_memcpy){0};
}

double raw_memcpy_run(void *arg, weir_error *err)
{
	(void)err;
	struct raw_memcpy *m = arg;
	static const double least_s = 0.1;
	uint64_t done = 0;
	double start = bench_now_s(), now;
	do {
		memcpy(m->to, m->from, m->bytes);
		__asm__ volatile("" : : "r"(m->to) : "memory"); /* prevents the removal of the copy */
		done += m->bytes;
		now = bench_now_s();
	} while (now - start < least_s);
	return (double)done / (now - start);
}

/* --- Loopback */

static void *receive_all(void *arg)
{
	int fd = *(int *)arg;
	char *destination = malloc(RAW_CHUNK_BYTES);
	char done = 0;
	while (destination) {
		ssize_t n = read(fd, destination, RAW_CHUNK_BYTES);
		if (n <= 0)
			break;
	}
	free(destination);
	if (write(fd, &done, 1) != 1) /* the sender stops its clock when everything has arrived */
		shutdown(fd, SHUT_RDWR);
	return NULL;
}

static bool send_all(int fd, const char *source, size_t bytes)
{
	for (size_t sent = 0; sent < bytes;) {
		size_t at = sent % RAW_SOURCE_BYTES, chunk = RAW_CHUNK_BYTES - at % RAW_CHUNK_BYTES;
		ssize_t n = write(fd, source + at, chunk < bytes - sent ? chunk : bytes - sent);
		if (n <= 0)
			return false;
		sent += (size_t)n;
	}
	return true;
}

bool raw_connect_pair(int fds[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fds[1] = -1;
	if (listener >= 0 && fds[0] >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0 &&
	    getsockname(listener, (struct sockaddr *)&at, &bytes) == 0 && connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0)
		fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (listener >= 0)
		close(listener);
	if (fds[1] < 0) {
		if (fds[0] >= 0)
			close(fds[0]);
		return false;
	}
	setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return true;
}

double raw_loopback_run(void *arg, weir_error *err)
{
	size_t bytes = *(size_t *)arg;
	int fds[2];
	char done = 0;
	double rate = -1;
	pthread_t receiver;
	char *source = malloc(RAW_SOURCE_BYTES);
	if (!source || !raw_connect_pair(fds)) {
		free(source);
		weir_fail(err, WEIR_E_IO, "cannot make a loopback connection: %s", strerror(errno));
		return -1;
	}
	memset(source, 1, RAW_SOURCE_BYTES);
	if (pthread_create(&receiver, NULL, receive_all, &fds[1]) == 0) {
		double start = bench_now_s();
		bool sent = send_all(fds[0], source, bytes);
		shutdown(fds[0], SHUT_WR);
		if (sent && read(fds[0], &done, 1) == 1)
			rate = (double)bytes / (bench_now_s() - start);
		pthread_join(receiver, NULL);
	}
	close(fds[0]);
	close(fds[1]);
	free(source);
	if (rate < 0)
		weir_fail(err, WEIR_E_IO, "the loopback connection broke: %s", strerror(errno));
	return rate;
}

/* --- Fused multiply-adds: ten independent chains hide the latency (4 cycles, two units). Each
 * instruction counts as 2 operations per lane. */

#if defined(__x86_64__)
#define FMA_CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
enum { FMA_CHAIN_COUNT = 10 };

__attribute__((target("avx512f"))) static double fma_avx512(void)
{
	const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
#define FMA_INIT(i) __m512 x##i = _mm512_set1_ps((float)i);
	FMA_CHAINS(FMA_INIT)
#undef FMA_INIT
	for (int r = 0; r < FMA_ROUNDS; r++) {
#define FMA_STEP(i) x##i = _mm512_fmadd_ps(x##i, a, b);
		FMA_CHAINS(FMA_STEP)
#undef FMA_STEP
#define FMA_KEEP(i) __asm__ volatile("" : "+v"(x##i));
		FMA_CHAINS(FMA_KEEP)
#undef FMA_KEEP
	}
	return 2.0 * 16 * FMA_CHAIN_COUNT * (double)FMA_ROUNDS;
}

__attribute__((target("avx2,fma"))) static double fma_avx2(void)
{
	const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
#define FMA_INIT(i) __m256 x##i = _mm256_set1_ps((float)i);
	FMA_CHAINS(FMA_INIT)
#undef FMA_INIT
	for (int r = 0; r < FMA_ROUNDS; r++) {
#define FMA_STEP(i) x##i = _mm256_fmadd_ps(x##i, a, b);
		FMA_CHAINS(FMA_STEP)
#undef FMA_STEP
#define FMA_KEEP(i) __asm__ volatile("" : "+x"(x##i));
		FMA_CHAINS(FMA_KEEP)
#undef FMA_KEEP
	}
	return 2.0 * 8 * FMA_CHAIN_COUNT * (double)FMA_ROUNDS;
}
#endif

static void *fma_thread(void *arg)
{
	double *operations = arg;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		*operations = fma_avx512();
	else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		*operations = fma_avx2();
#endif
	return NULL;
}

double raw_fma_run(void *arg, weir_error *err)
{
	uint32_t threads = *(uint32_t *)arg, started = 0;
	pthread_t ids[FMA_THREADS_MAX];
	double operations[FMA_THREADS_MAX] = {0}, all = 0, start = bench_now_s();
	for (; started < threads && started < FMA_THREADS_MAX; started++)
		if (pthread_create(&ids[started], NULL, fma_thread, &operations[started]) != 0)
			break;
	for (uint32_t i = 0; i < started; i++) {
		pthread_join(ids[i], NULL);
		all += operations[i];
	}
	double elapsed = bench_now_s() - start;
	if (all > 0)
		return all / elapsed;
	weir_fail(err, WEIR_E_UNSUPPORTED, "this processor has no fused multiply-add that we can measure");
	return -1;
}
