/* Keeps the spans of a part one after another in memory. A search by span finds an example. */
#include "worker/data/tokens/corpus.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "worker/data/format/shuffle_order.h"

struct span {
	uint64_t first; /* number of its first example */
	uint64_t at;    /* offset of its first context in bytes */
};

struct corpus {
	uint32_t context;
	uint8_t *bytes; /* (size) */
	uint64_t size, capacity;
	struct span *spans; /* (spans_count) */
	uint32_t spans_count, spans_capacity;
	uint64_t examples;
	uint64_t stride; /* of corpus_spread */
};

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for the text");
}

static weir_status make_room(struct corpus *c, const char *path, weir_error *err)
{
	if (c->size + CORPUS_BLOCK_BYTES > WEIR_TEXT_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: the text of one part is to have at most %u bytes, and it is kept in memory",
		                 path, WEIR_TEXT_BYTES_MAX);
	if (c->size + CORPUS_BLOCK_BYTES <= c->capacity)
		return WEIR_OK;
	const uint64_t capacity = c->capacity * 2 + (1u << 20);
	uint8_t *larger = realloc(c->bytes, capacity);
	if (!larger)
		return out_of_memory(err);
	c->bytes = larger;
	c->capacity = capacity;
	return WEIR_OK;
}

/* Ends a span of the bytes from `begin` on. Drops a span without an example. */
static weir_status end_span(struct corpus *c, uint64_t begin, weir_error *err)
{
	if (c->size - begin <= c->context) {
		c->size = begin;
		return WEIR_OK;
	}
	if (c->spans_count == c->spans_capacity) {
		const uint32_t capacity = c->spans_capacity * 2 + 16;
		struct span *larger = realloc(c->spans, capacity * sizeof *larger);
		if (!larger)
			return out_of_memory(err);
		c->spans = larger;
		c->spans_capacity = capacity;
	}
	c->spans[c->spans_count++] = (struct span){.first = c->examples, .at = begin};
	c->examples += c->size - begin - c->context;
	return WEIR_OK;
}

/* Appends those blocks of a file that belong to the part. */
static weir_status read_file(struct corpus *c, const char *path, const struct split *split, enum split_part part, weir_error *err)
{
	struct text *text;
	weir_status status = text_open(&text, path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	uint64_t begin = c->size; /* start of the span */
	size_t got = CORPUS_BLOCK_BYTES;
	while (status == WEIR_OK && got == CORPUS_BLOCK_BYTES) {
		status = make_room(c, path, err);
		if (status == WEIR_OK)
			status = text_next_bytes(text, c->bytes + c->size, CORPUS_BLOCK_BYTES, &got, err);
		if (status != WEIR_OK)
			break;
		if (!split->on || split_line(split, (const char *)c->bytes + c->size, got) == part) {
			c->size += got;
			continue;
		}
		status = end_span(c, begin, err);
		begin = c->size;
	}
	text_close(text);
	return status == WEIR_OK ? end_span(c, begin, err) : status;
}

weir_status corpus_open(struct corpus **out, const struct sources *sources, uint32_t context, const struct split *split,
                        enum split_part part, weir_error *err)
{
	assert(context > 0 && context <= WEIR_CONTEXT_MAX);
	struct corpus *c = calloc(1, sizeof *c);
	if (!c)
		return out_of_memory(err);
	c->context = context;
	weir_status status = WEIR_OK;
	for (uint32_t f = 0; f < sources->count && status == WEIR_OK; f++)
		status = read_file(c, sources->items[f].path, split, part, err);
	if (status != WEIR_OK) {
		corpus_close(c);
		return status;
	}
	c->stride = shuffle_stride(c->examples);
	*out = c;
	return WEIR_OK;
}

void corpus_close(struct corpus *c)
{
	if (!c)
		return;
	free(c->bytes);
	free(c->spans);
	free(c);
}

uint64_t corpus_examples(const struct corpus *c)
{
	return c->examples;
}

uint64_t corpus_spread(const struct corpus *c, uint64_t i)
{
	assert(i < c->examples);
	return shuffle_place(c->examples, c->stride, i);
}

void corpus_read(const struct corpus *c, uint64_t i, uint32_t *context, uint32_t *target)
{
	assert(i < c->examples);
	uint32_t low = 0, high = c->spans_count;
	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;
		if (c->spans[middle].first <= i)
			low = middle;
		else
			high = middle;
	}
	const uint8_t *from = c->bytes + c->spans[low].at + (i - c->spans[low].first);
	for (uint32_t k = 0; k < c->context; k++)
		context[k] = from[k];
	*target = from[c->context];
}
