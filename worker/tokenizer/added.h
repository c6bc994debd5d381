/* Added tokens: texts that are tokens as they stand, found before anything else is done to a text. <|endoftext|> is one.
 *
 * Of those that begin at the same place the longest is found; a token lies wholly behind the one before. Those that are `normalized` are looked for in what the
 * normalizer has made of the text between the others, as it has made of themselves. */
#ifndef WEIR_ADDED_H
#define WEIR_ADDED_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/tokenizer/pattern.h"

#define ADDED_TOKEN_BYTES_MAX 1024u
#define ADDED_TOKENS_MAX      65536u

struct added_token {
	char *content; /* (bytes): what is looked for; malloc'ed */
	uint32_t bytes, id;
	bool single_word;    /* not beside a letter, digit, mark or connector */
	bool lstrip, rstrip; /* with the white space on its left, on its right */
	bool special;        /* not shown in texts; nothing here looks at it */
};

struct added_set {
	struct added_token *tokens; /* (count), by content */
	uint32_t count, capacity;
	uint32_t first[257];  /* those that begin with byte b: [first[b], first[b + 1]) */
	struct pattern *word; /* what single_word looks at; NULL: no token asks */
};

/* Takes token->content over in any case. */
weir_status added_set_add(struct added_set *set, const struct added_token *token, weir_error *err);
/* After the last one was added. E_INVALID: two of the same content. */
weir_status added_set_ready(struct added_set *set, weir_error *err);
void added_set_free(struct added_set *set);

/* Cuts valid UTF-8: calls `section` with each stretch in order, of an added token (id) or of the text between (STRING_NONE). None is empty. */
typedef weir_status added_section(void *context, size_t begin, size_t end, uint32_t id, weir_error *err);
weir_status added_set_cut(const struct added_set *set, struct pattern_scratch *scratch, const char *text, size_t bytes,
                          added_section *section, void *context, weir_error *err);

#endif
