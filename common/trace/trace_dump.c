#include "common/trace/trace_dump.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"

#define DUMP_MAGIC   0x31545257u
#define HEADER_BYTES 136u
#define THREAD_BYTES 32u
#define SPAN_BYTES   40u

/* --- Writing */

static void put_header(uint8_t *out, const struct trace *t, const struct trace_process *who, uint32_t threads)
{
	put32(out, DUMP_MAGIC);
	put32(out + 4, TRACE_KINDS);
	put64(out + 8, (uint64_t)atomic_load(&t->began_ns));
	put64(out + 16, (uint64_t)atomic_load(&t->ends_ns));
	put64(out + 24, (uint64_t)who->offset_ns);
	put64(out + 32, who->error_ns);
	memcpy(out + 40, who->machine, sizeof who->machine);
	put32(out + 56, who->pid);
	put32(out + 60, threads);
	put64(out + 64, atomic_load(&t->lost));
	memcpy(out + 72, who->name, sizeof who->name);
}

static void put_span(uint8_t *out, const struct trace_span *s)
{
	put64(out, (uint64_t)s->begun_ns);
	put64(out + 8, s->duration_ns);
	put32(out + 16, s->what.pass);
	put32(out + 20, s->what.unit);
	put32(out + 24, s->what.batch);
	put32(out + 28, s->what.attempt);
	put16(out + 32, s->what.kind);
	put16(out + 34, s->what.op);
	put16(out + 36, s->what.partition);
	put16(out + 38, s->what.part);
}

static uint8_t *put_thread(uint8_t *out, const struct trace_thread *x)
{
	memcpy(out, x->name, sizeof x->name);
	put64(out + 16, x->lost);
	put64(out + 24, x->count);
	out += THREAD_BYTES;
	for (uint64_t i = 0; i < x->count; i++, out += SPAN_BYTES)
		put_span(out, &x->spans[i]);
	return out;
}

weir_status trace_dump(struct trace *t, const struct trace_process *who, uint8_t **out, size_t *bytes, weir_error *err)
{
	struct trace_thread *threads;
	uint32_t count;
	*out = NULL;
	const weir_status status = trace_read(t, &threads, &count, err);
	if (status)
		return status;
	*bytes = HEADER_BYTES;
	for (uint32_t i = 0; i < count; i++)
		*bytes += THREAD_BYTES + threads[i].count * SPAN_BYTES;
	*out = malloc(*bytes);
	if (*out) {
		put_header(*out, t, who, count);
		uint8_t *at = *out + HEADER_BYTES;
		for (uint32_t i = 0; i < count; i++)
			at = put_thread(at, &threads[i]);
	}
	trace_threads_destroy(threads, count);
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a trace of %zu bytes", *bytes);
}

/* --- Reading */

static bool get_span(const uint8_t *in, struct trace_span *out)
{
	*out = (struct trace_span){.begun_ns = (int64_t)get64(in),
	                           .duration_ns = get64(in + 8),
	                           .what = {.pass = get32(in + 16),
	                                    .unit = get32(in + 20),
	                                    .batch = get32(in + 24),
	                                    .attempt = get32(in + 28),
	                                    .kind = get16(in + 32),
	                                    .op = get16(in + 34),
	                                    .partition = get16(in + 36),
	                                    .part = get16(in + 38)}};
	return out->what.kind < TRACE_KINDS && out->begun_ns >= 0 && out->duration_ns <= (uint64_t)(INT64_MAX - out->begun_ns);
}

static weir_status get_thread(const uint8_t **in, size_t *left, struct trace_thread *out, weir_error *err)
{
	if (*left < THREAD_BYTES)
		return weir_fail(err, WEIR_E_CORRUPT, "trace: %zu bytes left, a thread needs %u", *left, THREAD_BYTES);
	memcpy(out->name, *in, sizeof out->name);
	out->name[sizeof out->name - 1] = '\0';
	out->lost = get64(*in + 16);
	const uint64_t count = get64(*in + 24);
	*in += THREAD_BYTES;
	*left -= THREAD_BYTES;
	if (count > *left / SPAN_BYTES)
		return weir_fail(err, WEIR_E_CORRUPT, "trace: thread %s has %llu spans, %zu bytes are left", out->name,
		                 (unsigned long long)count, *left);
	if (!(out->spans = malloc((count + 1) * sizeof *out->spans)))
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a trace");
	for (; out->count < count; out->count++, *in += SPAN_BYTES, *left -= SPAN_BYTES)
		if (!get_span(*in, &out->spans[out->count]))
			return weir_fail(err, WEIR_E_CORRUPT, "trace: span %llu of thread %s is of no known kind or time",
			                 (unsigned long long)out->count, out->name);
	return WEIR_OK;
}

weir_status trace_dump_read(const uint8_t *in, size_t bytes, struct trace_process *out, weir_error *err)
{
	*out = (struct trace_process){0};
	if (bytes < HEADER_BYTES || get32(in) != DUMP_MAGIC)
		return weir_fail(err, WEIR_E_CORRUPT, "%zu bytes are not a trace", bytes);
	if (get32(in + 4) != TRACE_KINDS)
		return weir_fail(err, WEIR_E_VERSION, "a trace of another release: it knows %u kinds of spans, this program %u",
		                 get32(in + 4), (unsigned)TRACE_KINDS);
	out->began_ns = (int64_t)get64(in + 8);
	out->ended_ns = (int64_t)get64(in + 16);
	out->offset_ns = (int64_t)get64(in + 24);
	out->error_ns = get64(in + 32);
	memcpy(out->machine, in + 40, sizeof out->machine);
	out->pid = get32(in + 56);
	const uint32_t threads = get32(in + 60);
	out->lost = get64(in + 64);
	memcpy(out->name, in + 72, sizeof out->name);
	out->name[sizeof out->name - 1] = '\0';
	if (threads > WEIR_TRACE_THREADS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "trace of %s: %u threads, at most %u", out->name, threads, WEIR_TRACE_THREADS_MAX);
	if (!(out->threads = calloc(threads + 1u, sizeof *out->threads)))
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a trace");
	size_t left = bytes - HEADER_BYTES;
	in += HEADER_BYTES;
	weir_status status = WEIR_OK;
	while (!status && out->threads_count < threads)
		status = get_thread(&in, &left, &out->threads[out->threads_count++], err);
	if (!status && left)
		status = weir_fail(err, WEIR_E_CORRUPT, "trace of %s: %zu bytes behind its threads", out->name, left);
	return status;
}

void trace_process_destroy(struct trace_process *p)
{
	trace_threads_destroy(p->threads, p->threads_count);
	*p = (struct trace_process){0};
}
