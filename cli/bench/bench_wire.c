/* What moving frames costs at least on this machine: one sender and one receiver, two threads, by
 * each technique of the kernel. Frames are those of a push: a header, a message of 1 MiB, an
 * acknowledgement, and WINDOW frames on their way. The receiver reads into a buffer that stays in
 * the cache, and looks at nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cli/bench/bench_net.h"

enum {
	HEADER_BYTES = 16,
	FRAME_BYTES = WEIR_MESSAGE_BYTES_TARGET,
	PIECE_BYTES = 256 << 10, /* of a read */
	WINDOW = 8,
	SLOT_BYTES = 64 << 10,
	SLOTS = 16,
	POLLS = 2000 /* before a side of the ring lets others run */
};

/* Memory that both sides map. */
struct ring {
	_Alignas(64) _Atomic uint64_t written;
	_Alignas(64) _Atomic uint64_t read;
	_Alignas(4096) uint8_t slots[SLOTS][SLOT_BYTES];
};

struct wire {
	const struct bench_wire *what;
	int from, to, pipe[2]; /* sockets of the sender and the receiver; -1: none */
	struct ring *ring;
	uint64_t frames;
};

static bool is_spliced(enum wire_technique t)
{
	return t == WIRE_TCP_SPLICE || t == WIRE_UNIX_SPLICE;
}

/* --- Sockets */

static bool write_all(int fd, const void *data, size_t bytes, int flags)
{
	for (size_t at = 0; at < bytes;) {
		const ssize_t n = send(fd, (const uint8_t *)data + at, bytes - at, flags | MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static bool read_all(int fd, void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		const ssize_t n = read(fd, (uint8_t *)data + at, bytes - at);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static bool send_whole(const struct wire *w, const uint8_t *header, const uint8_t *data)
{
	const struct iovec all[] = {{(void *)(uintptr_t)header, HEADER_BYTES}, {(void *)(uintptr_t)data, FRAME_BYTES}};
	const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)all, .msg_iovlen = 2};
	const ssize_t n = sendmsg(w->from, &m, MSG_NOSIGNAL);
	if (n < HEADER_BYTES)
		return false;
	return write_all(w->from, data + n - HEADER_BYTES, FRAME_BYTES - ((size_t)n - HEADER_BYTES), 0);
}

/* The pages of the data travel by reference. */
static bool send_spliced(const struct wire *w, const uint8_t *header, const uint8_t *data)
{
	if (!write_all(w->from, header, HEADER_BYTES, MSG_MORE))
		return false;
	for (size_t at = 0; at < FRAME_BYTES;) {
		const struct iovec v = {(void *)(uintptr_t)(data + at), FRAME_BYTES - at};
		ssize_t in_pipe = vmsplice(w->pipe[1], &v, 1, 0);
		if (in_pipe <= 0)
			return false;
		at += (size_t)in_pipe;
		while (in_pipe > 0) {
			const ssize_t n = splice(w->pipe[0], NULL, w->from, NULL, (size_t)in_pipe, at < FRAME_BYTES ? SPLICE_F_MORE : 0);
			if (n <= 0)
				return false;
			in_pipe -= n;
		}
	}
	return true;
}

static void *receive_frames(void *arg)
{
	const struct wire *w = arg;
	uint8_t header[HEADER_BYTES];
	uint8_t *hot = aligned_alloc(4096, PIECE_BYTES);
	bool good = hot != NULL;
	for (uint64_t i = 0; good && i < w->frames; i++) {
		good = read_all(w->to, header, sizeof header);
		for (size_t at = 0; good && at < FRAME_BYTES; at += PIECE_BYTES)
			good = read_all(w->to, hot, PIECE_BYTES);
		good = good && write_all(w->to, header, sizeof header, 0);
	}
	free(hot);
	if (!good)
		(void)shutdown(w->to, SHUT_RDWR);
	return NULL;
}

static bool send_frames(const struct wire *w)
{
	uint8_t header[HEADER_BYTES] = {0}, answer[HEADER_BYTES];
	uint64_t answered = 0;
	bool good = true;
	for (uint64_t i = 0; good && i < w->frames; i++) {
		const uint8_t *data = w->what->source + i * FRAME_BYTES % w->what->source_bytes;
		for (; good && i - answered >= WINDOW; answered++)
			good = read_all(w->from, answer, sizeof answer);
		good = good && (is_spliced(w->what->technique) ? send_spliced(w, header, data) : send_whole(w, header, data));
	}
	for (; good && answered < w->frames; answered++)
		good = read_all(w->from, answer, sizeof answer);
	return good;
}

static bool open_sockets(struct wire *w)
{
	int pair[2];
	const bool is_unix = w->what->technique == WIRE_UNIX || w->what->technique == WIRE_UNIX_SPLICE;
	if (is_unix ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 : !raw_connect_pair(pair))
		return false;
	w->from = pair[0];
	w->to = pair[1];
	if (!is_spliced(w->what->technique))
		return true;
	if (pipe2(w->pipe, O_CLOEXEC) != 0)
		return false;
	return fcntl(w->pipe[1], F_SETPIPE_SZ, FRAME_BYTES) >= 0;
}

/* --- The ring */

static void wait_until(const _Atomic uint64_t *counter, uint64_t least)
{
	for (unsigned polls = 0; atomic_load_explicit(counter, memory_order_acquire) < least;)
		if (++polls % POLLS == 0)
			sched_yield();
}

static void *receive_slots(void *arg)
{
	const struct wire *w = arg;
	uint8_t *hot = aligned_alloc(4096, FRAME_BYTES);
	for (uint64_t i = 0, slots = w->frames * (FRAME_BYTES / SLOT_BYTES); i < slots; i++) {
		wait_until(&w->ring->written, i + 1);
		if (hot)
			memcpy(hot + i * SLOT_BYTES % FRAME_BYTES, w->ring->slots[i % SLOTS], SLOT_BYTES);
		atomic_store_explicit(&w->ring->read, i + 1, memory_order_release);
	}
	free(hot);
	return NULL;
}

static bool send_slots(const struct wire *w)
{
	const uint64_t slots = w->frames * (FRAME_BYTES / SLOT_BYTES);
	for (uint64_t i = 0; i < slots; i++) {
		if (i >= SLOTS)
			wait_until(&w->ring->read, i - SLOTS + 1);
		memcpy(w->ring->slots[i % SLOTS], w->what->source + i * SLOT_BYTES % w->what->source_bytes, SLOT_BYTES);
		atomic_store_explicit(&w->ring->written, i + 1, memory_order_release);
	}
	wait_until(&w->ring->read, slots);
	return true;
}

static bool open_ring(struct wire *w)
{
	const int fd = memfd_create("bench-ring", MFD_CLOEXEC);
	void *at = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, sizeof(struct ring)) == 0)
		at = mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (fd >= 0)
		close(fd);
	w->ring = at == MAP_FAILED ? NULL : at;
	return w->ring != NULL;
}

/* --- A measurement */

static void close_wire(const struct wire *w)
{
	const int fds[] = {w->from, w->to, w->pipe[0], w->pipe[1]};
	for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (w->ring)
		munmap(w->ring, sizeof *w->ring);
}

double bench_wire_run(void *arg, weir_error *err)
{
	struct bench_wire *what = arg;
	struct wire w = {.what = what, .from = -1, .to = -1, .pipe = {-1, -1}, .frames = what->bytes / FRAME_BYTES};
	const bool by_ring = what->technique == WIRE_RING;
	pthread_t receiver;
	bool good = (by_ring ? open_ring(&w) : open_sockets(&w)) &&
	            pthread_create(&receiver, NULL, by_ring ? receive_slots : receive_frames, &w) == 0;
	double elapsed = 0;
	if (good) {
		const double start = bench_now_s(), cpu = bench_own_cpu_s();
		good = by_ring ? send_slots(&w) : send_frames(&w);
		elapsed = bench_now_s() - start;
		if (!good)
			(void)shutdown(w.from, SHUT_RDWR);
		pthread_join(receiver, NULL);
		what->cpu_ms_per_gb = (bench_own_cpu_s() - cpu) / ((double)(w.frames * FRAME_BYTES) / 1e12);
	}
	const int why = errno;
	close_wire(&w);
	if (good)
		return (double)(w.frames * FRAME_BYTES) / elapsed;
	weir_fail(err, WEIR_E_IO, "frames could not be moved: %s", strerror(why));
	return -1;
}

double bench_wire_cpu(void *arg, weir_error *err)
{
	(void)err;
	return ((const struct bench_wire *)arg)->cpu_ms_per_gb;
}
