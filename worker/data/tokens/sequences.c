/* Keeps the part's tokens as spans of the files. Tokens have consecutive places, by which all
 * lookups work. */
#include "worker/data/tokens/sequences.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "kernels/backend.h"
#include "worker/data/format/shuffle_order.h"

enum { PIECE = 1024 }; /* tokens per read of their counts */

struct span {
	uint32_t file;
	uint64_t at;    /* offset in the file, in tokens */
	uint64_t place; /* place of its first token in the part */
	uint64_t first; /* apart: number of its first sequence */
};

struct sequences {
	struct sequences_options options;
	struct span *spans; /* (spans_count) */
	uint64_t spans_count, spans_capacity;
	uint64_t tokens; /* in the part */
	uint64_t count, stride;
	uint32_t *block; /* (SEQUENCE_BLOCK_TOKENS) used while finding the part */
};

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for the places of tokens");
}

static uint64_t span_end(const struct sequences *s, uint64_t k)
{
	return k + 1 < s->spans_count ? s->spans[k + 1].place : s->tokens;
}

/* --- Finding the part's tokens */

/* fresh: do not join these tokens to those before them. */
static weir_status add_tokens(struct sequences *s, uint32_t file, uint64_t at, uint64_t count, bool fresh, weir_error *err)
{
	const struct span *last = s->spans_count > 0 ? &s->spans[s->spans_count - 1] : NULL;
	if (!fresh && last && last->file == file && last->at + (s->tokens - last->place) == at) {
		s->tokens += count;
		return WEIR_OK;
	}
	if (s->spans_count == s->spans_capacity) {
		const uint64_t capacity = s->spans_capacity * 2 + 64;
		struct span *larger = realloc(s->spans, capacity * sizeof *larger);
		if (!larger)
			return out_of_memory(err);
		s->spans = larger;
		s->spans_capacity = capacity;
	}
	s->spans[s->spans_count++] = (struct span){.file = file, .at = at, .place = s->tokens};
	s->tokens += count;
	return WEIR_OK;
}

/* Finds whether a block belongs to the part. */
static weir_status has_block(struct sequences *s, uint32_t file, uint64_t at, uint64_t count, bool *has, weir_error *err)
{
	uint8_t words[4 * SEQUENCE_BLOCK_TOKENS];
	const weir_status status = token_file_read(s->options.files[file], at, count, s->block, NULL, err);
	for (uint64_t i = 0; status == WEIR_OK && i < count; i++)
		put32(words + 4 * i, s->block[i]);
	if (status == WEIR_OK)
		*has = split_line(&s->options.split, (const char *)words, 4 * count) == s->options.part;
	return status;
}

static weir_status add_document(struct sequences *s, uint32_t file, uint64_t begin, uint64_t end, weir_error *err)
{
	if (!s->options.split.on)
		return add_tokens(s, file, begin, end - begin, s->options.apart, err);
	weir_status status = WEIR_OK;
	bool had = !s->options.apart; /* whether to join the block to the one before */
	for (uint64_t at = begin; at < end && status == WEIR_OK; at += SEQUENCE_BLOCK_TOKENS) {
		const uint64_t count = end - at < SEQUENCE_BLOCK_TOKENS ? end - at : SEQUENCE_BLOCK_TOKENS;
		bool has = false;
		status = has_block(s, file, at, count, &has, err);
		if (status == WEIR_OK && has)
			status = add_tokens(s, file, at, count, !had, err);
		had = has || !s->options.apart;
	}
	return status;
}

static weir_status find_part(struct sequences *s, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t f = 0; f < s->options.files_count; f++) {
		const uint64_t documents = token_file_get_info(s->options.files[f])->documents;
		uint64_t begin = 0;
		for (uint64_t d = 0; d < documents && status == WEIR_OK; d++) {
			const uint64_t end = token_file_end(s->options.files[f], d);
			status = add_document(s, f, begin, end, err);
			begin = end;
		}
	}
	return status;
}

/* --- Sequences */

/* Each token except the first is a sequence's target. */
static uint64_t sequences_of(const struct sequences *s, uint64_t tokens)
{
	return tokens < 2 ? 0 : (tokens - 2) / s->options.length + 1;
}

static void count_sequences(struct sequences *s)
{
	if (!s->options.apart) {
		s->count = sequences_of(s, s->tokens);
		return;
	}
	for (uint64_t k = 0; k < s->spans_count; k++) {
		s->spans[k].first = s->count;
		s->count += sequences_of(s, span_end(s, k) - s->spans[k].place);
	}
}

weir_status sequences_open(struct sequences **out, const struct sequences_options *o, weir_error *err)
{
	assert(o->length > 0);
	struct sequences *s = calloc(1, sizeof *s);
	if (!s)
		return out_of_memory(err);
	s->options = *o;
	s->block = malloc(SEQUENCE_BLOCK_TOKENS * sizeof *s->block);
	weir_status status = !s->block ? out_of_memory(err) : find_part(s, err);
	free(s->block);
	s->block = NULL;
	if (status == WEIR_OK)
		count_sequences(s);
	if (status == WEIR_OK && s->count > SPREAD_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "%llu sequences; at most %u are taken: make them longer",
		                   (unsigned long long)s->count, SPREAD_MAX);
	if (status != WEIR_OK) {
		sequences_close(s);
		return status;
	}
	s->stride = shuffle_stride(s->count);
	*out = s;
	return WEIR_OK;
}

void sequences_close(struct sequences *s)
{
	if (!s)
		return;
	free(s->spans);
	free(s->block);
	free(s);
}

uint64_t sequences_count(const struct sequences *s)
{
	return s->count;
}

uint64_t sequences_spread(const struct sequences *s, uint64_t i)
{
	assert(i < s->count);
	return shuffle_place(s->count, s->stride, i);
}

/* --- Reading */

/* Returns the last span whose `first` (by_sequence) or `place` is at most `value`. */
static uint64_t span_of(const struct sequences *s, uint64_t value, bool by_sequence)
{
	uint64_t low = 0, high = s->spans_count;
	while (high - low > 1) {
		const uint64_t middle = low + (high - low) / 2;
		if ((by_sequence ? s->spans[middle].first : s->spans[middle].place) <= value)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Returns where a sequence begins in the part; *limit: the end of the tokens that it may have. */
static uint64_t begin_of(const struct sequences *s, uint64_t i, uint64_t *limit)
{
	*limit = s->tokens;
	if (!s->options.apart)
		return i * s->options.length;
	/* A span without sequences has the `first` of the next span, so it is never the last match. */
	const uint64_t k = span_of(s, i, true);
	*limit = span_end(s, k);
	return s->spans[k].place + (i - s->spans[k].first) * s->options.length;
}

/* Reads tokens [place, place + count) of the part. counts may be NULL. */
static weir_status read_tokens(const struct sequences *s, uint64_t place, uint64_t count, uint32_t *ids, uint8_t *counts,
                               weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint64_t k = count > 0 ? span_of(s, place, false) : 0, done = 0; done < count && status == WEIR_OK; k++) {
		const struct span *span = &s->spans[k];
		const uint64_t skip = place + done - span->place, left = span_end(s, k) - span->place - skip;
		const uint64_t n = left < count - done ? left : count - done;
		status =
		    token_file_read(s->options.files[span->file], span->at + skip, n, ids + done, !counts ? NULL : counts + done, err);
		done += n;
	}
	return status;
}

static weir_status read_targets(const struct sequences *s, uint64_t place, uint64_t count, uint32_t *targets, uint64_t *counted,
                                weir_error *err)
{
	weir_status status = WEIR_OK;
	uint8_t counts[PIECE];
	for (uint64_t done = 0; done < count && status == WEIR_OK; done += PIECE) {
		const uint64_t n = count - done < PIECE ? count - done : PIECE;
		status = read_tokens(s, place + done, n, targets + done, counts, err);
		for (uint64_t i = 0; i < n && status == WEIR_OK; i++) {
			targets[done + i] = counts[i] ? targets[done + i] : TARGET_NONE;
			*counted += counts[i];
		}
	}
	return status;
}

weir_status sequences_read(const struct sequences *s, uint64_t i, uint32_t *tokens, uint32_t *targets, uint64_t *counted,
                           weir_error *err)
{
	assert(i < s->count);
	uint64_t limit;
	const uint64_t begin = begin_of(s, i, &limit), left = limit - begin, length = s->options.length;
	const uint64_t have = left < length ? left : length, aims = left - 1 < length ? left - 1 : length;
	weir_status status = read_tokens(s, begin, have, tokens, NULL, err);
	if (status == WEIR_OK)
		status = read_targets(s, begin + 1, aims, targets, counted, err);
	for (uint64_t k = have; k < length; k++)
		tokens[k] = 0;
	for (uint64_t k = aims; k < length; k++)
		targets[k] = TARGET_NONE;
	return status;
}
