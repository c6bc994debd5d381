/* Memory of the CPU backends: the host's; and their order: that of the calls. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/cpu.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void *cpu_aligned_bytes(size_t alignment, size_t bytes)
{
	return aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

weir_status cpu_sync(struct backend *b, weir_error *err)
{
	(void)b, (void)err; /* every op is complete when it returns */
	return WEIR_OK;
}

void cpu_info(const struct backend *b, struct backend_info *out)
{
	(void)b;
	*out = (struct backend_info){.device = "cpu"};
}

void *cpu_buffer_alloc(struct backend *b, size_t bytes)
{
	(void)b;
	const bool huge = bytes >= 2 * HUGE_PAGE_BYTES;
	void *p = cpu_aligned_bytes(huge ? HUGE_PAGE_BYTES : CPU_LINE_BYTES, bytes);
	if (!p)
		return NULL;
	/* advice only: a refusal costs only speed */
	if (huge)
		madvise(p, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
	return memset(p, 0, bytes);
}

void cpu_buffer_free(struct backend *b, void *p)
{
	(void)b;
	free(p);
}

void cpu_to_device(struct backend *b, void *device, const void *host, size_t bytes)
{
	(void)b;
	if (bytes > 0)
		memcpy(device, host, bytes);
}

void cpu_to_host(struct backend *b, void *host, const void *device, size_t bytes)
{
	(void)b;
	if (bytes > 0)
		memcpy(host, device, bytes);
}

/* Streams and marks have nothing to do: ops complete in call order. */
enum backend_stream cpu_choose_stream(struct backend *b, enum backend_stream s)
{
	(void)b, (void)s;
	return STREAM_COMPUTE;
}

void cpu_set_mark(struct backend *b, struct backend_mark *m)
{
	(void)b, (void)m;
}

void cpu_follow_mark(struct backend *b, const struct backend_mark *m)
{
	(void)b, (void)m;
}

weir_status cpu_await_mark(struct backend *b, const struct backend_mark *m, weir_error *err)
{
	(void)m;
	return cpu_sync(b, err);
}

void cpu_replay(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg)
{
	(void)b, (void)key, (void)bytes;
	issue(arg);
}

void cpu_forget_replays(struct backend *b)
{
	(void)b;
}
