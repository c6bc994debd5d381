#include "kernels/difference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "kernels/book.h"
#include "kernels/topk_record.h"

#define FIT_EVERY  TOPK_EXACT_EVERY /* differences: a fit takes longer than coding */
#define BOOK_BYTES (CODEC_BOOK * sizeof(float))

static bool has_book(const weir_pull_coding *c)
{
	return codec_has_use(c->codec, WEIR_CODES_BY_BOOK) && c->book == WEIR_BOOK_SEGMENTED;
}

static size_t head_bytes(const weir_pull_coding *c)
{
	return has_book(c) ? BOOK_BYTES : 0;
}

size_t difference_max(const weir_pull_coding *c, size_t n)
{
	assert(n > 0 && n <= WEIR_CHUNK && c->codec != WEIR_CODEC_FP32);
	if (c->codec != WEIR_CODEC_TOPK)
		return head_bytes(c) + codec_bytes(c->codec, n);
	size_t bytes = 0;
	for (size_t at = 0; at < n; at += CODEC_TILE)
		bytes += topk_record_max(codec_tile_elements(n, at), c->values);
	return bytes;
}

/* The number of elements that top-k sends. */
static size_t share_of(const weir_pull_coding *c, size_t n)
{
	const size_t k = (size_t)((double)c->density * (double)n + 0.5);
	return k ? k : 1;
}

size_t difference_expected(const weir_pull_coding *c, size_t n)
{
	const size_t most = difference_max(c, n), offset = 1; /* approximate bytes of an offset */
	const size_t about = c->codec == WEIR_CODEC_TOPK ? share_of(c, n) * (8 * offset + topk_value_bits(c->values)) / 8 : most;
	return about < most ? about : most;
}

/* --- Adding */

/* Whether any element has changed. */
static bool add_dense(const float *restrict decoded, size_t n, float *restrict reference)
{
	uint32_t changed = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t before, after;
		const float sum = reference[i] + decoded[i];
		memcpy(&before, &reference[i], sizeof before);
		memcpy(&after, &sum, sizeof after);
		changed |= before ^ after;
		reference[i] = sum;
	}
	return changed != 0;
}

/* Moves *in to the end of the record. */
static bool add_record(const uint8_t **in, size_t n, weir_values values, float *reference)
{
	uint16_t offsets[TOPK_TILE_COUNT_MAX + TOPK_SLACK];
	float sent[TOPK_TILE_COUNT_MAX + TOPK_SLACK], now[TOPK_TILE_COUNT_MAX];
	const size_t count = topk_decode(*in, n, values, offsets, sent);
	*in += 4 * (size_t)get16(*in + 2);
	for (size_t i = 0; i < count; i++)
		now[i] = reference[offsets[i]];
	const bool changed = add_dense(sent, count, now);
	for (size_t i = 0; i < count; i++)
		reference[offsets[i]] = now[i];
	return changed;
}

static bool add_tile(const struct coding *coding, const uint8_t **in, size_t n, float *reference)
{
	float decoded[CODEC_TILE];
	codec_decode(coding, *in, n, decoded);
	*in += codec_bytes(coding->codec, n);
	return add_dense(decoded, n, reference);
}

bool difference_add(const weir_pull_coding *c, const uint8_t *in, size_t n, float *reference)
{
	float book[CODEC_BOOK];
	bool changed = false;
	if (has_book(c))
		memcpy(book, in, BOOK_BYTES);
	const float *known = codec_has_use(c->codec, WEIR_CODES_BY_BOOK) ? book_known(c->book) : NULL;
	const struct coding coding = {.codec = c->codec, .book = known ? known : book};
	in += head_bytes(c);
	for (size_t at = 0; at < n; at += CODEC_TILE)
		changed |= c->codec == WEIR_CODEC_TOPK ? add_record(&in, codec_tile_elements(n, at), c->values, reference + at)
		                                       : add_tile(&coding, &in, codec_tile_elements(n, at), reference + at);
	return changed;
}

weir_status difference_check(const weir_pull_coding *c, const uint8_t *in, size_t bytes, size_t n, weir_error *err)
{
	assert(n > 0 && n <= WEIR_CHUNK);
	if (c->codec != WEIR_CODEC_TOPK) {
		if (bytes != difference_max(c, n))
			return weir_fail(err, WEIR_E_CORRUPT, "a difference of %zu bytes, %zu elements take %zu (%s)", bytes, n,
			                 difference_max(c, n), codec_name(c->codec));
		for (size_t i = 0; i < CODEC_BOOK && has_book(c); i++) {
			float value;
			memcpy(&value, in + i * sizeof value, sizeof value);
			if (!isfinite(value))
				return weir_fail(err, WEIR_E_CORRUPT, "a difference whose code book has a NaN or an infinity");
		}
		return WEIR_OK;
	}
	size_t used = 0;
	for (size_t at = 0, record; at < n; at += CODEC_TILE, used += record) {
		const weir_status status = topk_check(in + used, bytes - used, codec_tile_elements(n, at), c->values, &record, err);
		if (status)
			return status;
	}
	return used == bytes ? WEIR_OK
	                     : weir_fail(err, WEIR_E_CORRUPT, "a difference of %zu bytes, its records have %zu", bytes, used);
}

/* --- Making */

static size_t encode_topk(const weir_pull_coding *c, float *work, size_t n, uint8_t *out)
{
	float threshold;
	size_t bytes = 0;
	uint32_t selected;
	/* topk_threshold selects among so few elements directly: it allocates nothing. */
	if (topk_threshold(work, n, share_of(c, n), &threshold, NULL))
		threshold = TOPK_THRESHOLD_MIN;
	for (size_t at = 0; at < n; at += CODEC_TILE)
		bytes += topk_encode(NULL, work + at, NULL, codec_tile_elements(n, at), threshold, c->values, out + bytes, &selected);
	return bytes;
}

static size_t encode_tiles(const weir_pull_coding *c, struct difference_fit *fit, const float *work, size_t n, uint8_t *out)
{
	const float *known = codec_has_use(c->codec, WEIR_CODES_BY_BOOK) ? book_known(c->book) : NULL;
	if (has_book(c) && fit->made % FIT_EVERY == 0)
		book_fit(work, n, fit->book);
	if (has_book(c))
		memcpy(out, fit->book, BOOK_BYTES);
	codec_encode(&(struct coding){.codec = c->codec, .book = known ? known : fit->book}, work, NULL, n, out + head_bytes(c));
	return difference_max(c, n);
}

enum difference_outcome difference_make(const weir_pull_coding *c, struct difference_fit *fit, const float *value,
                                        float *reference, size_t n, float *work, uint8_t *out, size_t *bytes)
{
	for (size_t i = 0; i < n; i++)
		work[i] = value[i] - reference[i];
	if (!codec_all_finite(work, n))
		return DIFFERENCE_NOT_FINITE;
	*bytes = c->codec == WEIR_CODEC_TOPK ? encode_topk(c, work, n, out) : encode_tiles(c, fit, work, n, out);
	if (!difference_add(c, out, n, reference))
		return DIFFERENCE_NONE;
	fit->made++;
	return DIFFERENCE_MADE;
}
