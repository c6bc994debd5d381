/* A token bucket that paces bytes. It fills at a rate, and bytes may go while it is not in debt. A
 * send may put it into debt, so one of any size can go. */
#ifndef WEIR_TOKEN_BUCKET_H
#define WEIR_TOKEN_BUCKET_H

#include <stdint.h>

#define TOKEN_BUCKET_BURST_NS 50000000 /* the bucket holds at most this time's worth of bytes */

struct token_bucket {
	uint64_t bytes_per_s; /* 0: no limit */
	double tokens;        /* bytes */
	int64_t filled_ns;    /* time up to which it was filled */
};

/* The time until bytes may go, in ns; 0: now. */
static inline int64_t token_bucket_wait_ns(struct token_bucket *b, int64_t now_ns)
{
	if (!b->bytes_per_s)
		return 0;
	const double most = (double)b->bytes_per_s * (TOKEN_BUCKET_BURST_NS / 1e9);
	b->tokens += (double)b->bytes_per_s * ((double)(now_ns - b->filled_ns) / 1e9);
	b->tokens = b->tokens > most ? most : b->tokens;
	b->filled_ns = now_ns;
	return b->tokens >= 0 ? 0 : (int64_t)(-b->tokens / (double)b->bytes_per_s * 1e9) + 1;
}

static inline void token_bucket_take(struct token_bucket *b, uint64_t bytes)
{
	b->tokens -= b->bytes_per_s ? (double)bytes : 0;
}

#endif
