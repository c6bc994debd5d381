/* Added tokens: texts that are always whole tokens, such as <|endoftext|>. They are found before
 * any other step.
 *
 * Of the tokens that begin at the same place, the longest one wins; tokens do not overlap. A
 * `normalized` token is itself normalized, and is looked for in the normalized text between the
 * other tokens. */
#ifndef WEIR_ADDED_H
#define WEIR_ADDED_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/tokenizer/pattern.h"

#define ADDED_TOKEN_BYTES_MAX 1024u
#define ADDED_TOKENS_MAX      65536u

struct added_token {
	char *content; /* (bytes): the text to find; malloc'ed */
	uint32_t bytes, id;
	bool single_word;    /* matches only if not beside a letter, digit, mark or connector */
	bool lstrip, rstrip; /* also takes the white space on its left, on its right */
	bool special;        /* hidden in decoded text; nothing here uses it */
};

struct added_set {
	struct added_token *tokens; /* (count), sorted by content */
	uint32_t count, capacity;
	uint32_t first[257];  /* tokens that begin with byte b: [first[b], first[b + 1]) */
	struct pattern *word; /* characters of words, for single_word; NULL: no token needs it */
};

/* Takes ownership of token->content, also on failure. */
weir_status added_set_add(struct added_set *set, const struct added_token *token, weir_error *err);
/* Call after adding the last token. E_INVALID: two tokens have the same content. */
weir_status added_set_ready(struct added_set *set, weir_error *err);
void added_set_destroy(struct added_set *set);

/* Cuts valid UTF-8: calls `section` for each stretch in order, either an added token (id) or the
 * text between tokens (STRING_NONE). No stretch is empty. */
typedef weir_status added_section(void *context, size_t begin, size_t end, uint32_t id, weir_error *err);
weir_status added_set_cut(const struct added_set *set, struct pattern_scratch *scratch, const char *text, size_t bytes,
                          added_section *section, void *context, weir_error *err);

#endif
