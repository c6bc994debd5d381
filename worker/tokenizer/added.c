#include "worker/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/string_table.h"
#include "worker/tokenizer/utf8.h"

/* \w of Rust's regular expressions, which tokenizers use for parts of words (Unicode Technical
 * Standard 18, annex C). The ranges are letters that Unicode counts as symbols. */
static const char word_pattern[] = "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
                                   "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]";

weir_status added_set_add(struct added_set *set, const struct added_token *token, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (token->bytes > ADDED_TOKEN_BYTES_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "the token %u has %u bytes; at most %u are taken", token->id, token->bytes,
		                   ADDED_TOKEN_BYTES_MAX);
	else if (set->count == ADDED_TOKENS_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "more than %u tokens", ADDED_TOKENS_MAX);
	if (status == WEIR_OK && set->count == set->capacity) {
		const uint32_t capacity = set->capacity * 2 + 16;
		struct added_token *larger = realloc(set->tokens, capacity * sizeof *larger);
		if (!larger) {
			status = weir_fail(err, WEIR_E_MEMORY, "out of memory");
		} else {
			set->tokens = larger;
			set->capacity = capacity;
		}
	}
	if (status == WEIR_OK)
		set->tokens[set->count++] = *token;
	else
		free(token->content);
	return status;
}

/* Compares as bytes; a prefix comes first. */
static int by_content(const void *a, const void *b)
{
	const struct added_token *x = a, *y = b;
	const int order = memcmp(x->content, y->content, x->bytes < y->bytes ? x->bytes : y->bytes);
	return order != 0 ? order : x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

weir_status added_set_ready(struct added_set *set, weir_error *err)
{
	bool words = false;
	if (set->count > 0)
		qsort(set->tokens, set->count, sizeof *set->tokens, by_content);
	for (uint32_t i = 1; i < set->count; i++)
		if (by_content(&set->tokens[i - 1], &set->tokens[i]) == 0)
			return weir_fail(err, WEIR_E_INVALID, "the tokens %u and %u are both '%.60s'", set->tokens[i - 1].id,
			                 set->tokens[i].id, set->tokens[i].content);
	for (uint32_t b = 0, i = 0; b < 257; b++) {
		while (i < set->count && (uint8_t)set->tokens[i].content[0] < b)
			i++;
		set->first[b] = i;
	}
	for (uint32_t i = 0; i < set->count; i++)
		words |= set->tokens[i].single_word;
	return words ? pattern_compile(&set->word, word_pattern, sizeof word_pattern - 1, err) : WEIR_OK;
}

void added_set_destroy(struct added_set *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		free(set->tokens[i].content);
	free(set->tokens);
	pattern_destroy(set->word);
	*set = (struct added_set){0};
}

/* The first token in [low, high) whose byte at `depth` is at least c. These tokens are equal up to
 * `depth`. */
static uint32_t lower_bound(const struct added_set *set, uint32_t low, uint32_t high, uint32_t depth, unsigned c)
{
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if ((uint8_t)set->tokens[middle].content[depth] < c)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The longest token at the beginning of the text; NULL: none. */
static const struct added_token *token_at(const struct added_set *set, const char *text, size_t bytes)
{
	const struct added_token *found = NULL;
	uint32_t low = set->first[(uint8_t)text[0]], high = set->first[(uint8_t)text[0] + 1];
	for (uint32_t depth = 1; low < high; depth++) {
		if (set->tokens[low].bytes == depth)
			found = &set->tokens[low++];
		if (depth == bytes)
			break;
		const unsigned c = (uint8_t)text[depth];
		low = lower_bound(set, low, high, depth, c);
		high = lower_bound(set, low, high, depth, c + 1);
	}
	return found;
}

/* White space as defined by Unicode. */
static bool is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The start of the character that ends at `end` > 0. */
static size_t character_before(const char *text, size_t end)
{
	do
		end--;
	while (((uint8_t)text[end] & 0xc0) == 0x80);
	return end;
}

static weir_status is_word(const struct added_set *set, struct pattern_scratch *scratch, const char *character, bool *word,
                           weir_error *err)
{
	size_t begin, end;
	return pattern_find(set->word, scratch, character, utf8_length(character[0]), 0, word, &begin, &end, err);
}

/* Whether a letter or the like is beside [begin, end), so that a single_word token does not match
 * there. */
static weir_status is_part_of_word(const struct added_set *set, struct pattern_scratch *scratch, const char *text, size_t bytes,
                                   size_t begin, size_t end, bool *part, weir_error *err)
{
	weir_status status = WEIR_OK;
	*part = false;
	if (begin > 0)
		status = is_word(set, scratch, text + character_before(text, begin), part, err);
	if (status == WEIR_OK && !*part && end < bytes)
		status = is_word(set, scratch, text + end, part, err);
	return status;
}

static size_t strip_left(const char *text, size_t from, size_t begin)
{
	while (begin > from) {
		size_t at = character_before(text, begin);
		const size_t character = at;
		if (!is_space(utf8_next(text, &at)))
			break;
		begin = character;
	}
	return begin;
}

static size_t strip_right(const char *text, size_t end, size_t bytes)
{
	while (end < bytes) {
		size_t at = end;
		if (!is_space(utf8_next(text, &at)))
			break;
		end = at;
	}
	return end;
}

weir_status added_set_cut(const struct added_set *set, struct pattern_scratch *scratch, const char *text, size_t bytes,
                          added_section *section, void *context, weir_error *err)
{
	size_t from = 0; /* everything before was passed on */
	weir_status status = WEIR_OK;
	for (size_t at = 0; at < bytes && set->count > 0;) {
		const struct added_token *token = token_at(set, text + at, bytes - at);
		if (!token) {
			at++;
			continue;
		}
		size_t begin = at, end = at + token->bytes;
		bool part = false;
		at = end; /* the white space that it takes may also begin a token */
		if (token->single_word)
			status = is_part_of_word(set, scratch, text, bytes, begin, end, &part, err);
		if (status != WEIR_OK)
			return status;
		if (part)
			continue;
		if (token->lstrip)
			begin = begin < from ? from : strip_left(text, from, begin);
		if (token->rstrip)
			end = strip_right(text, end, bytes);
		if (begin >= end) /* nothing of it remains */
			continue;
		if (from < begin)
			status = section(context, from, begin, STRING_NONE, err);
		if (status == WEIR_OK)
			status = section(context, begin, end, token->id, err);
		if (status != WEIR_OK)
			return status;
		from = end;
	}
	return from < bytes ? section(context, from, bytes, STRING_NONE, err) : WEIR_OK;
}
