/* Builds the tables of bpe.h from the model of a tokenizer.json. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/bpe.h"
#include "worker/tokenizer/bpe_internal.h"
#include "worker/tokenizer/read.h"

enum { SHOWN = 60 };

/* U+2581, which stands for a space in sentencepiece vocabularies */
#define SPACE       "\xe2\x96\x81"
#define SPACE_BYTES 3u

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a tokenizer");
}

/* --- Bytes as characters */

/* GPT-2's table: printable characters of Latin-1 stand for their own byte; characters from U+0100
 * on stand for the other bytes, in three runs. */
static uint32_t character_of(unsigned byte)
{
	if (byte <= 0x20)
		return 0x100 + byte;
	if (byte >= 0x7f && byte <= 0xa0)
		return 0x121 + (byte - 0x7f);
	return byte == 0xad ? 0x143 : byte;
}

static bool byte_of(uint32_t c, char *byte)
{
	*byte = (char)(c >= 0x143 ? 0xad : c >= 0x121 ? c - 0x121 + 0x7f : c >= 0x100 ? c - 0x100 : c);
	return c <= 0x143 && character_of((uint8_t)*byte) == c;
}

bool bpe_bytes_of(const char *content, size_t bytes, char *out, size_t *n)
{
	*n = 0;
	for (size_t at = 0; at < bytes;)
		if (!byte_of(utf8_next(content, &at), &out[(*n)++]))
			return false;
	return true;
}

/* --- The start of characters */

/* Finds the tokens of the character's bytes, <0xE2> and so on. False: one is missing. */
static bool byte_tokens(const struct bpe *b, const char *character, size_t bytes, struct bpe_start *start)
{
	for (size_t i = 0; i < bytes; i++) {
		char name[8];
		snprintf(name, sizeof name, "<0x%02X>", (unsigned)(uint8_t)character[i]);
		start->ids[i] = string_table_find(b->vocabulary, name, 6);
		if (start->ids[i] == STRING_NONE)
			return false;
	}
	start->kind = START_BYTES;
	start->count = (uint32_t)bytes;
	return true;
}

void bpe_start_of(const struct bpe *b, const char *character, size_t bytes, struct bpe_start *start)
{
	*start = (struct bpe_start){.kind = START_TOKENS, .count = 1};
	start->ids[0] = string_table_find(b->vocabulary, character, bytes);
	if (start->ids[0] != STRING_NONE || (b->byte_fallback && byte_tokens(b, character, bytes, start)))
		return;
	start->kind = b->unk ? START_UNKNOWN : START_NOTHING;
	start->count = 0;
}

static void find_starts(struct bpe *b)
{
	for (unsigned i = 0; i < (b->byte_level ? 256u : 128u); i++) {
		char character[UTF8_CHARACTER_MAX];
		const size_t bytes = utf8_put(b->byte_level ? character_of(i) : i, character);
		bpe_start_of(b, character, bytes, &b->starts[i]);
	}
}

/* --- Merges */

static uint32_t slot_of(const struct bpe *b, uint64_t pair)
{
	uint32_t slot = (uint32_t)hash_u64(pair) & (b->merges_slots - 1);
	while (b->merges[slot].pair != BPE_FREE && b->merges[slot].pair != pair)
		slot = (slot + 1) & (b->merges_slots - 1);
	return slot;
}

static weir_status token_of(const struct bpe *b, const char *what, const char *content, size_t bytes, size_t rank, uint32_t *id,
                            weir_error *err)
{
	*id = string_table_find(b->vocabulary, content, bytes);
	if (*id != STRING_NONE)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "merge %zu: its %s '%.*s' is not in the vocabulary", rank, what,
	                 bytes < SHOWN ? (int)bytes : SHOWN, content);
}

static bool ends_in_space(const char *content, size_t bytes)
{
	return bytes >= SPACE_BYTES && memcmp(content + bytes - SPACE_BYTES, SPACE, SPACE_BYTES) == 0;
}

static weir_status add_merge(struct bpe *b, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                             size_t rank, weir_error *err)
{
	uint32_t left_id, right_id, id;
	weir_status status = token_of(b, "left part", left, left_bytes, rank, &left_id, err);
	if (status == WEIR_OK)
		status = token_of(b, "right part", right, right_bytes, rank, &right_id, err);
	if (status != WEIR_OK)
		return status;
	char *both = malloc(left_bytes + right_bytes + 1);
	if (!both)
		return out_of_memory(err);
	memcpy(both, left, left_bytes);
	memcpy(both + left_bytes, right, right_bytes);
	status = token_of(b, "result", both, left_bytes + right_bytes, rank, &id, err);
	free(both);
	if (status != WEIR_OK)
		return status;
	const uint64_t pair = (uint64_t)left_id << 32 | right_id;
	b->merges[slot_of(b, pair)] =
	    /* the last of equal pairs wins */
	    (struct bpe_merge){.pair = pair, .rank = (uint32_t)rank, .id = id};
	b->by_rank[rank] = id;
	if (!ends_in_space(left, left_bytes) && right_bytes >= SPACE_BYTES && memcmp(right, SPACE, SPACE_BYTES) == 0)
		b->cuts_at_spaces = false;
	return WEIR_OK;
}

/* A merge: "left right", or ["left", "right"]. */
static weir_status read_merge(struct bpe *b, const struct json_value *v, size_t rank, bool *skip, weir_error *err)
{
	size_t left_bytes, right_bytes;
	const char *left = json_value_text(json_element(v, 0), &left_bytes),
	           *right = json_value_text(json_element(v, 1), &right_bytes);
	if (left && right && json_length(v) == 2)
		return add_merge(b, left, left_bytes, right, right_bytes, rank, err);
	const char *text = json_value_text(v, &left_bytes);
	*skip = text && strncmp(text, "#version", 8) == 0;
	const char *space = !text ? NULL : memchr(text, ' ', left_bytes);
	if (*skip)
		return WEIR_OK;
	if (!space || memchr(space + 1, ' ', left_bytes - (size_t)(space + 1 - text)) != NULL)
		return weir_fail(err, WEIR_E_INVALID, "merge %zu is neither \"LEFT RIGHT\" nor [\"LEFT\", \"RIGHT\"]", rank);
	return add_merge(b, text, (size_t)(space - text), space + 1, left_bytes - (size_t)(space + 1 - text), rank, err);
}

static weir_status read_merges(struct bpe *b, const struct json_value *merges, weir_error *err)
{
	const size_t count = json_length(merges);
	if (!json_is_list(merges))
		return weir_fail(err, WEIR_E_INVALID, "\"merges\" is missing, or is no list");
	if (count > BPE_MERGES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%zu merges; at most %u are taken", count, BPE_MERGES_MAX);
	b->merges_slots = 16;
	while (b->merges_slots < count * 2)
		b->merges_slots *= 2;
	b->merges = malloc(b->merges_slots * sizeof *b->merges);
	b->by_rank = malloc((count + 1) * sizeof *b->by_rank);
	if (!b->merges || !b->by_rank)
		return out_of_memory(err);
	for (uint32_t i = 0; i < b->merges_slots; i++)
		b->merges[i].pair = BPE_FREE;
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		bool skip = false;
		status = read_merge(b, json_element(merges, i), b->merges_count, &skip, err);
		b->merges_count += !skip;
	}
	return status;
}

/* --- The whole model */

/* Rejects options that would change words and are not supported. */
static weir_status check_unsupported(const struct json_value *model, weir_error *err)
{
	static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
		size_t bytes = 0;
		if (json_value_text(json_member(model, affixes[i]), &bytes) != NULL && bytes > 0)
			return weir_fail(err, WEIR_E_UNSUPPORTED, "\"%s\" is not supported", affixes[i]);
	}
	const struct json_value *dropout = json_member(model, "dropout");
	double share;
	if (!json_is_absent(dropout) && !(json_value_real(dropout, &share) && share >= 0 && share <= 0))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "\"dropout\", which draws merges by lot, is not supported");
	return WEIR_OK;
}

static weir_status read_options(struct bpe *b, const struct json_value *model, weir_error *err)
{
	size_t bytes;
	weir_status status = check_unsupported(model, err);
	if (status == WEIR_OK)
		status = read_bool(&b->byte_fallback, model, "byte_fallback", false, err);
	if (status == WEIR_OK)
		status = read_bool(&b->fuse_unk, model, "fuse_unk", false, err);
	if (status == WEIR_OK)
		status = read_bool(&b->ignore_merges, model, "ignore_merges", false, err);
	if (status == WEIR_OK && !json_is_absent(json_member(model, "unk_token"))) {
		status = read_text(&b->unk, &bytes, model, "unk_token", err);
		if (status == WEIR_OK)
			b->unk_id = string_table_find(b->vocabulary, b->unk, bytes);
	}
	return status;
}

/* Collects the tokens of a byte-level vocabulary as the bytes that they stand for. Tokens with
 * other characters are not words. */
static weir_status find_words(struct bpe *b, weir_error *err)
{
	weir_status status = WEIR_OK;
	char *word = NULL;
	for (uint32_t id = 0; id < b->vocabulary->ids && status == WEIR_OK; id++) {
		size_t bytes, n;
		const char *content = string_table_get(b->vocabulary, id, &bytes);
		if (!content)
			continue;
		char *larger = realloc(word, bytes + 1);
		if (!larger) {
			status = out_of_memory(err);
			break;
		}
		word = larger;
		if (bpe_bytes_of(content, bytes, word, &n))
			status = string_table_add(&b->words, word, n, id, err);
	}
	free(word);
	return status;
}

weir_status bpe_read(struct bpe *b, const struct json_value *model, const struct string_table *vocabulary, bool byte_level,
                     weir_error *err)
{
	*b = (struct bpe){.vocabulary = vocabulary, .byte_level = byte_level, .unk_id = STRING_NONE, .cuts_at_spaces = true};
	weir_status status = read_options(b, model, err);
	if (status == WEIR_OK)
		status = read_merges(b, json_member(model, "merges"), err);
	if (status != WEIR_OK)
		return status;
	b->cuts_at_spaces &= !byte_level && !b->ignore_merges && string_table_find(vocabulary, SPACE, SPACE_BYTES) != STRING_NONE;
	find_starts(b);
	return byte_level && b->ignore_merges ? find_words(b, err) : WEIR_OK;
}

void bpe_destroy(struct bpe *b)
{
	free(b->merges);
	free(b->by_rank);
	free(b->unk);
	string_table_destroy(&b->words);
	*b = (struct bpe){0};
}
