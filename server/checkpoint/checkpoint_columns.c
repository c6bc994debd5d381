/* A column uses a frame of reference: it stores the least value, and the difference of each value
 * in as few bytes as the largest difference needs. Versions, steps and counts of one block are
 * close together, so they take 1 to 3 bytes per row. Hashed keys take 8 bytes. */
#include "server/checkpoint/checkpoint_columns.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/limits.h"
#include "kernels/codec.h"

#define COLUMN_HEADER_BYTES 9u
#define INT8_MAX_F          127.0f

uint32_t checkpoint_block_rows(uint32_t elements, uint32_t slots)
{
	size_t row = ROW_META_BYTES + (size_t)elements * (1 + slots) * sizeof(float);
	size_t fit = CHECKPOINT_BLOCK_BYTES / row;
	return fit < 1 ? 1 : fit > CHECKPOINT_BLOCK_ROWS_MAX ? CHECKPOINT_BLOCK_ROWS_MAX : (uint32_t)fit;
}

static size_t groups_of(size_t elements)
{
	return (elements + CHECKPOINT_QUANT_GROUP - 1) / CHECKPOINT_QUANT_GROUP;
}

size_t checkpoint_values_bytes(enum row_precision precision, size_t elements)
{
	switch (precision) {
	case ROWS_FP32:
		return codec_bytes(WEIR_CODEC_FP32, elements);
	case ROWS_BF16:
		return codec_bytes(WEIR_CODEC_BF16, elements);
	case ROWS_INT8:
		return groups_of(elements) * sizeof(float) + elements;
	}
	assert(!"a precision that no file has");
	return 0;
}

/* Returns the bytes of the values and slots of all rows of a block. */
static size_t numbers_bytes(const struct checkpoint_file_header *h, const struct checkpoint_block *b)
{
	return b->rows *
	       (checkpoint_values_bytes(h->values, b->elements) + checkpoint_values_bytes(h->slots, (size_t)b->elements * b->slots));
}

size_t checkpoint_payload_bytes_max(const struct checkpoint_file_header *h, const struct checkpoint_block *b)
{
	return CHECKPOINT_COLUMNS * (COLUMN_HEADER_BYTES + b->rows * sizeof(uint64_t)) + numbers_bytes(h, b);
}

/* --- One column */

static uint32_t width_of(uint64_t range)
{
	uint32_t bytes = 0;
	for (; range; range >>= 8)
		bytes++;
	return bytes;
}

static uint8_t *column_encode(uint8_t *out, const uint64_t *values, uint32_t n)
{
	uint64_t least = values[0], most = values[0];
	for (uint32_t i = 1; i < n; i++) {
		least = values[i] < least ? values[i] : least;
		most = values[i] > most ? values[i] : most;
	}
	uint32_t width = width_of(most - least);
	put_le(out, least, 8);
	out[8] = (uint8_t)width;
	out += COLUMN_HEADER_BYTES;
	for (uint32_t i = 0; i < n; i++, out += width)
		put_le(out, values[i] - least, width);
	return out;
}

/* Returns the place behind the column. NULL: the column does not fit before `end`, or holds a value
 * above `limit`. */
static const uint8_t *column_decode(const uint8_t *in, const uint8_t *end, uint64_t limit, uint64_t *values, uint32_t n)
{
	if (!in || (size_t)(end - in) < COLUMN_HEADER_BYTES)
		return NULL;
	uint64_t least = get_le(in, 8);
	uint32_t width = in[8];
	in += COLUMN_HEADER_BYTES;
	if (width > 8 || (size_t)(end - in) < (size_t)width * n)
		return NULL;
	for (uint32_t i = 0; i < n; i++, in += width) {
		uint64_t above = get_le(in, width);
		if (least > limit || above > limit - least)
			return NULL;
		values[i] = least + above;
	}
	return in;
}

/* --- Metadata of a row, as columns */

static uint64_t meta_column(const struct row_meta *m, uint32_t column)
{
	uint32_t bits;
	switch (column) {
	case 1:
		return m->version;
	case 2:
		return m->state.steps;
	case 3:
		memcpy(&bits, &m->state.accumulator, sizeof bits);
		return bits;
	case 4:
		return m->last_push_s;
	default:
		return m->count;
	}
}

static void meta_set_column(struct row_meta *m, uint32_t column, uint64_t value)
{
	uint32_t bits = (uint32_t)value;
	switch (column) {
	case 1:
		m->version = value;
		break;
	case 2:
		m->state.steps = bits;
		break;
	case 3:
		memcpy(&m->state.accumulator, &bits, sizeof bits);
		break;
	case 4:
		m->last_push_s = bits;
		break;
	default:
		m->count = bits;
		break;
	}
}

/* --- Numbers of one row */

/* NaN and infinity count as 0 here, because no scale can represent them. */
static float finite_or_zero(float x)
{
	return isfinite(x) ? x : 0;
}

static void int8_encode(const float *in, size_t n, uint8_t *out)
{
	uint8_t *codes = out + groups_of(n) * sizeof(float);
	for (size_t first = 0; first < n; first += CHECKPOINT_QUANT_GROUP, out += sizeof(float)) {
		size_t end = first + CHECKPOINT_QUANT_GROUP < n ? first + CHECKPOINT_QUANT_GROUP : n;
		float most = 0;
		for (size_t i = first; i < end; i++)
			most = fmaxf(most, fabsf(finite_or_zero(in[i])));
		float scale = most / INT8_MAX_F;
		memcpy(out, &scale, sizeof scale);
		for (size_t i = first; i < end; i++) {
			/* A scale that underflowed can give a code above 127. */
			float code = scale > 0 ? rintf(finite_or_zero(in[i]) / scale) : 0;
			codes[i] = (uint8_t)(int8_t)fmaxf(-INT8_MAX_F, fminf(INT8_MAX_F, code));
		}
	}
}

static void int8_decode(const uint8_t *in, size_t n, float *out)
{
	const uint8_t *codes = in + groups_of(n) * sizeof(float);
	for (size_t i = 0; i < n; i++) {
		float scale;
		memcpy(&scale, in + i / CHECKPOINT_QUANT_GROUP * sizeof scale, sizeof scale);
		out[i] = (float)(int8_t)codes[i] * scale;
	}
}

static void numbers_encode(enum row_precision precision, const float *in, size_t n, uint8_t *out)
{
	if (precision == ROWS_INT8)
		int8_encode(in, n, out);
	else
		codec_encode(&(struct coding){.codec = precision == ROWS_BF16 ? WEIR_CODEC_BF16 : WEIR_CODEC_FP32}, in, NULL, n, out);
}

static void numbers_decode(enum row_precision precision, const uint8_t *in, size_t n, float *out)
{
	if (precision == ROWS_INT8)
		int8_decode(in, n, out);
	else
		codec_decode(&(struct coding){.codec = precision == ROWS_BF16 ? WEIR_CODEC_BF16 : WEIR_CODEC_FP32}, in, n, out);
}

/* --- The payload */

size_t checkpoint_payload_encode(const struct checkpoint_file_header *h, const struct checkpoint_block *b,
                                 const struct checkpoint_rows *rows, uint8_t *out)
{
	uint64_t column[CHECKPOINT_BLOCK_ROWS_MAX];
	size_t slots = (size_t)b->elements * b->slots, stride = b->elements + slots;
	uint8_t *at = column_encode(out, rows->keys, b->rows);
	for (uint32_t c = 1; c < CHECKPOINT_COLUMNS; c++) {
		for (uint32_t i = 0; i < b->rows; i++)
			column[i] = meta_column(&rows->metas[i], c);
		at = column_encode(at, column, b->rows);
	}
	for (uint32_t i = 0; i < b->rows && b->elements; i++, at += checkpoint_values_bytes(h->values, b->elements))
		numbers_encode(h->values, rows->rows + i * stride, b->elements, at);
	for (uint32_t i = 0; i < b->rows && slots; i++, at += checkpoint_values_bytes(h->slots, slots))
		numbers_encode(h->slots, rows->rows + i * stride + b->elements, slots, at);
	return (size_t)(at - out);
}

bool checkpoint_payload_decode(const struct checkpoint_file_header *h, const struct checkpoint_block *b, const uint8_t *in,
                               uint64_t *keys, struct row_meta *metas, float *values)
{
	uint64_t column[CHECKPOINT_BLOCK_ROWS_MAX];
	const uint8_t *end = in + b->payload, *at = column_decode(in, end, UINT64_MAX, keys, b->rows);
	size_t slots = (size_t)b->elements * b->slots, stride = b->elements + slots;
	for (uint32_t c = 1; c < CHECKPOINT_COLUMNS; c++) {
		at = column_decode(at, end, c == 1 ? UINT64_MAX : UINT32_MAX, column, b->rows);
		for (uint32_t i = 0; at && i < b->rows; i++)
			meta_set_column(&metas[i], c, column[i]);
	}
	if (!at || (size_t)(end - at) != numbers_bytes(h, b))
		return false;
	for (uint32_t i = 0; i < b->rows && b->elements; i++, at += checkpoint_values_bytes(h->values, b->elements))
		numbers_decode(h->values, at, b->elements, values + i * stride);
	for (uint32_t i = 0; i < b->rows && slots; i++, at += checkpoint_values_bytes(h->slots, slots))
		numbers_decode(h->slots, at, slots, values + i * stride + b->elements);
	return true;
}
