#include "worker/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/bpe_internal.h"

#define SPACE       "\xe2\x96\x81"
#define SPACE_BYTES 3u
#define NONE        UINT32_MAX

/* A token of a word, linked to its neighbours. A token that was merged into its left neighbour is
 * GONE. */
struct symbol {
	uint32_t id, previous, next;
};
#define GONE UINT32_MAX

struct kept_word {
	char word[BPE_KEPT_BYTES];
	uint8_t bytes; /* 0: unused */
	uint32_t count;
	uint32_t ids[BPE_KEPT_TOKENS];
};
_Static_assert(sizeof(struct kept_word) == 64, "a kept word is one cache line");

struct bpe_scratch {
	struct kept_word *kept; /* (BPE_KEPT_WORDS) */
	struct symbol *symbols; /* (symbols_count) */
	uint32_t symbols_count, symbols_capacity;
	uint64_t *heap; /* (heap_count) rank << 32 | index of the left symbol; the smallest is first */
	uint32_t heap_count;
	size_t heap_capacity;
};

bool token_list_reserve(struct token_list *l, size_t more)
{
	if (l->count + more <= l->capacity)
		return true;
	const size_t capacity = (l->count + more) * 3 / 2 + 256;
	uint32_t *larger = realloc(l->ids, capacity * sizeof *larger);
	if (!larger)
		return false;
	l->ids = larger;
	l->capacity = capacity;
	return true;
}

struct bpe_scratch *bpe_scratch_create(void)
{
	struct bpe_scratch *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->kept = aligned_alloc(64, BPE_KEPT_WORDS * sizeof *s->kept);
	if (!s->kept) {
		free(s);
		return NULL;
	}
	memset(s->kept, 0, BPE_KEPT_WORDS * sizeof *s->kept);
	return s;
}

void bpe_scratch_destroy(struct bpe_scratch *s)
{
	if (!s)
		return;
	free(s->kept);
	free(s->symbols);
	free(s->heap);
	free(s);
}

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory encoding a text");
}

/* --- The start of a word */

/* Makes room for the symbols of a word, and for the heap: one entry per pair at the start, and two
 * per merge. A byte gives at most two symbols: the tokens of its character's bytes, when a
 * byte-level model falls back. */
static weir_status make_room(struct bpe_scratch *s, size_t bytes, weir_error *err)
{
	const size_t symbols = 2 * bytes;
	if (symbols <= s->symbols_capacity)
		return WEIR_OK;
	if (bytes > BPE_WORD_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "a word of %zu bytes, which the tokenizer does not cut; at most %u are taken", bytes,
		                 BPE_WORD_BYTES_MAX);
	const size_t capacity = symbols + symbols / 2 + 64;
	free(s->symbols);
	free(s->heap);
	s->symbols = malloc(capacity * sizeof *s->symbols);
	s->heap = malloc(3 * capacity * sizeof *s->heap);
	s->symbols_capacity = s->symbols && s->heap ? (uint32_t)capacity : 0;
	return s->symbols_capacity > 0 ? WEIR_OK : out_of_memory(err);
}

static void add_symbol(struct bpe_scratch *s, uint32_t id)
{
	const uint32_t at = s->symbols_count++;
	/* at 0, `previous` is NONE */
	s->symbols[at] = (struct symbol){.id = id, .previous = at - 1, .next = at + 1};
}

static weir_status unknown(const struct bpe *b, const char *character, size_t bytes, weir_error *err)
{
	return weir_fail(err, WEIR_E_INVALID, "the character '%.*s' has no token, nor has the tokenizer's unk_token '%s'", (int)bytes,
	                 character, b->unk);
}

static weir_status begin_word(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t bytes, weir_error *err)
{
	/* An unknown token that following ones may join. Tokens of bytes are placed before it. */
	bool pending = false;
	s->symbols_count = 0;
	for (size_t at = 0; at < bytes;) {
		const size_t n = b->byte_level ? 1 : utf8_length(word[at]);
		struct bpe_start other;
		const struct bpe_start *start = n == 1 ? &b->starts[(uint8_t)word[at]] : &other;
		if (n > 1)
			bpe_start_of(b, word + at, n, &other);
		if (start->kind == START_UNKNOWN && b->unk_id == STRING_NONE)
			return unknown(b, word + at, n, err);
		if (pending && (start->kind == START_TOKENS || (start->kind == START_UNKNOWN && !b->fuse_unk))) {
			add_symbol(s, b->unk_id);
			pending = false;
		}
		pending |= start->kind == START_UNKNOWN;
		for (uint32_t i = 0; i < start->count; i++)
			add_symbol(s, start->ids[i]);
		at += n;
	}
	if (pending)
		add_symbol(s, b->unk_id);
	if (s->symbols_count > 0)
		s->symbols[s->symbols_count - 1].next = NONE;
	return WEIR_OK;
}

/* --- A heap of merges (Williams 1964) */

static void heap_push(struct bpe_scratch *s, uint64_t item)
{
	uint32_t at = s->heap_count++;
	for (; at > 0 && s->heap[(at - 1) / 2] > item; at = (at - 1) / 2)
		s->heap[at] = s->heap[(at - 1) / 2];
	s->heap[at] = item;
}

static uint64_t heap_pop(struct bpe_scratch *s)
{
	const uint64_t least = s->heap[0], last = s->heap[--s->heap_count];
	uint32_t at = 0;
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= s->heap_count)
			break;
		if (child + 1 < s->heap_count && s->heap[child + 1] < s->heap[child])
			child++;
		if (s->heap[child] >= last)
			break;
		s->heap[at] = s->heap[child];
		at = child;
	}
	s->heap[at] = last;
	return least;
}

static void push_pair(const struct bpe *b, struct bpe_scratch *s, uint32_t left)
{
	const struct bpe_merge *m = bpe_find_merge(b, s->symbols[left].id, s->symbols[s->symbols[left].next].id);
	if (m)
		heap_push(s, (uint64_t)m->rank << 32 | left);
}

/* Merges the pairs of a word. A heap entry may be out of date: it counts only if its current
 * neighbours still merge to the same token. */
static void merge_word(const struct bpe *b, struct bpe_scratch *s)
{
	s->heap_count = 0;
	for (uint32_t i = 0; i + 1 < s->symbols_count; i++)
		push_pair(b, s, i);
	while (s->heap_count > 0) {
		const uint64_t item = heap_pop(s);
		struct symbol *left = &s->symbols[(uint32_t)item];
		const uint32_t id = b->by_rank[item >> 32];
		if (left->id == GONE || left->next == NONE)
			continue;
		struct symbol *right = &s->symbols[left->next];
		const struct bpe_merge *m = bpe_find_merge(b, left->id, right->id);
		if (!m || m->id != id)
			continue;
		left->id = id;
		left->next = right->next;
		right->id = GONE;
		if (left->next != NONE)
			s->symbols[left->next].previous = (uint32_t)item;
		if (left->previous != NONE)
			push_pair(b, s, left->previous);
		if (left->next != NONE)
			push_pair(b, s, (uint32_t)item);
	}
}

/* --- Words */

static weir_status encode_anew(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t bytes, struct token_list *out,
                               weir_error *err)
{
	if (b->ignore_merges) {
		const uint32_t id = string_table_find(b->byte_level ? &b->words : b->vocabulary, word, bytes);
		if (id != STRING_NONE) {
			if (!token_list_reserve(out, 1))
				return out_of_memory(err);
			out->ids[out->count++] = id;
			return WEIR_OK;
		}
	}
	weir_status status = make_room(s, bytes, err);
	if (status == WEIR_OK)
		status = begin_word(b, s, word, bytes, err);
	if (status != WEIR_OK)
		return status;
	merge_word(b, s);
	if (!token_list_reserve(out, s->symbols_count))
		return out_of_memory(err);
	for (uint32_t i = 0; s->symbols_count > 0 && i != NONE; i = s->symbols[i].next)
		out->ids[out->count++] = s->symbols[i].id;
	return WEIR_OK;
}

static weir_status encode_word(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t bytes, struct token_list *out,
                               weir_error *err)
{
	if (bytes > BPE_KEPT_BYTES)
		return encode_anew(b, s, word, bytes, out, err);
	struct kept_word *kept = &s->kept[hash_bytes(word, bytes, 0) & (BPE_KEPT_WORDS - 1)];
	if (kept->bytes == bytes && memcmp(kept->word, word, bytes) == 0) {
		if (!token_list_reserve(out, kept->count))
			return out_of_memory(err);
		for (uint32_t i = 0; i < kept->count; i++)
			out->ids[out->count++] = kept->ids[i];
		return WEIR_OK;
	}
	const size_t before = out->count;
	weir_status status = encode_anew(b, s, word, bytes, out, err);
	const size_t count = out->count - before;
	if (status == WEIR_OK && count <= BPE_KEPT_TOKENS) {
		memcpy(kept->word, word, bytes);
		if (count > 0)
			memcpy(kept->ids, out->ids + before, count * sizeof *kept->ids);
		kept->bytes = (uint8_t)bytes;
		kept->count = (uint32_t)count;
	}
	return status;
}

/* The first "▁" of the word, from byte `from` on, that follows another character; `bytes` if there
 * is none. */
static size_t cut_after(const char *word, size_t bytes, size_t from)
{
	bool behind_space = true;
	for (size_t at = from; at < bytes;) {
		const bool space = bytes - at >= SPACE_BYTES && memcmp(word + at, SPACE, SPACE_BYTES) == 0;
		if (space && !behind_space)
			return at;
		behind_space = space;
		at += utf8_length(word[at]);
	}
	return bytes;
}

weir_status bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t bytes, struct token_list *out,
                       weir_error *err)
{
	if (!b->cuts_at_spaces)
		return encode_word(b, s, word, bytes, out, err);
	weir_status status = WEIR_OK;
	for (size_t at = 0, end; at < bytes && status == WEIR_OK; at = end) {
		end = cut_after(word, bytes, at);
		status = encode_word(b, s, word + at, end - at, out, err);
	}
	return status;
}
