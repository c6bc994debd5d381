#include "worker/client/pack.h"

#include "proto/frame/section_lz4.h"

static size_t capacity(size_t n)
{
	return n - (n * PACK_SAVES_PERMIL + 999) / 1000;
}

bool pack_is_due(struct pack_trial *t, size_t n)
{
	if (n < PACK_BYTES_MIN)
		return false;
	const unsigned streams = atomic_fetch_add_explicit(&t->streams, 1, memory_order_relaxed);
	return streams < PACK_TRIALS_FIRST || streams % PACK_TRIAL_EVERY == 0 || atomic_load_explicit(&t->pays, memory_order_relaxed);
}

size_t pack_stream(struct pack_trial *t, const void *in, size_t n, uint8_t *out)
{
	size_t bytes = 1;
	if (!atomic_load_explicit(&t->pays, memory_order_relaxed) && n > PACK_SAMPLE_BYTES) {
		const uint8_t *sample = (const uint8_t *)in + (n - PACK_SAMPLE_BYTES) / 2;
		bytes = section_lz4_pack(sample, PACK_SAMPLE_BYTES, out, capacity(PACK_SAMPLE_BYTES));
	}
	if (bytes)
		bytes = section_lz4_pack(in, n, out, capacity(n));
	atomic_store_explicit(&t->pays, bytes > 0, memory_order_relaxed);
	return bytes;
}
