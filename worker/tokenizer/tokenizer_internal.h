/* The inside of a tokenizer, shared by tokenizer.c (open, close), tokenizer_read.c (a
 * tokenizer.json), encoder.c and decoder.c. */
#ifndef WEIR_TOKENIZER_INTERNAL_H
#define WEIR_TOKENIZER_INTERNAL_H

#include "worker/tokenizer/added.h"
#include "worker/tokenizer/bpe.h"
#include "worker/tokenizer/normalizer.h"
#include "worker/tokenizer/pre_tokenizer.h"
#include "worker/tokenizer/string_table.h"
#include "worker/tokenizer/tokenizer.h"

/* The tokens that the post-processor adds on one side. */
struct affix {
	uint32_t ids[TOKENIZER_AFFIX_MAX];
	uint32_t count;
};

/* The conversion of tokens to text. Nearly all of it happens when the file is read: a table has the
 * bytes of each token. */
struct decoding {
	struct buffer block;         /* the bytes of the tokens, one after the other */
	struct string_place *tokens; /* (ids), by id; `at` STRING_NONE: no token */
	uint32_t ids;
	uint32_t longest;    /* longest text or content of a token, in bytes */
	bool *special;       /* (ids) */
	bool spaces_between; /* no decoder: tokens are words */
	/* Metaspace: (first_drops_bytes), the character that the first token loses */
	char first_drops[UTF8_CHARACTER_MAX];
	uint32_t first_drops_bytes;
	/* (strips_bytes): the text loses up to strips_count of this character at its beginning */
	char strips[UTF8_CHARACTER_MAX];
	uint32_t strips_bytes;
	uint64_t strips_count;
};

struct tokenizer {
	struct tokenizer_info info; /* if `bytes` is set, the fields below are unused */
	struct string_table model;  /* the model's vocabulary */
	struct string_table others; /* added tokens that are not in `model` */
	struct string_table added;  /* all added tokens, as written */
	bool moved;                 /* ids or properties differ from those of tokenizer.json alone */
	struct added_set raw, normalized;
	struct normalizer normalizer;
	struct pre_tokenizer pre;
	struct bpe bpe;
	struct affix before, behind;
	struct decoding decoding;
};

/* The files of a folder, beside tokenizer.json, that describe tokens. NULL: no such file. */
struct tokenizer_beside {
	struct json *config; /* tokenizer_config.json */
	/* special_tokens_map.json; this and the next are used only if the config has no
	 * added_tokens_decoder */
	struct json *map;
	struct json *added; /* added_tokens.json */
};
/* Reads the text of one of these files; *text is NULL if there is no such file. */
weir_status tokenizer_beside_text(const char *folder, const char *name, size_t bytes_max, char path[WEIR_PATH_BYTES_MAX],
                                  char **text, size_t *bytes, weir_error *err);
weir_status tokenizer_beside_read(struct tokenizer_beside *b, const char *folder, weir_error *err);
void tokenizer_beside_destroy(struct tokenizer_beside *b);
/* The text of "bos_token" or the like; NULL: none. */
const char *tokenizer_beside_token(const struct tokenizer_beside *b, const char *key);
/* E_UNSUPPORTED names a key of tokenizer_config.json that makes transformers produce other ids than
 * tokenizer.json. t must already have its normalizer and pre-tokenizer. */
weir_status tokenizer_beside_check(const struct tokenizer *t, const struct tokenizer_beside *b, weir_error *err);
/* Adds the tokens that tokenizer.json, root, does not have, in the order of transformers. */
weir_status tokenizer_beside_add(struct tokenizer *t, const struct tokenizer_beside *b, const struct json_value *root,
                                 weir_error *err);

/* Fills a zeroed tokenizer from a tokenizer.json. After a failure, the caller closes it. beside may
 * be NULL. */
weir_status tokenizer_read(struct tokenizer *t, const struct json_value *root, const struct tokenizer_beside *beside,
                           const char *name, weir_error *err);
/* Adds a token unless one has this content. how: an object with its properties; NULL: none.
 * special: the default if the object does not say. */
weir_status tokenizer_add(struct tokenizer *t, const char *content, size_t bytes, const struct json_value *how, bool special,
                          weir_error *err);
/* The same, but an existing token gets these properties. special: true makes it special in any
 * case. */
weir_status tokenizer_change(struct tokenizer *t, const char *content, size_t bytes, const struct json_value *how, bool special,
                             weir_error *err);
/* v: the decoder, or null. Call it after the vocabulary and the added tokens are read. */
weir_status decoding_read(struct tokenizer *t, const struct json_value *v, weir_error *err);
void decoding_destroy(struct decoding *d);

/* The content of a token of the model or of an added token; NULL: the id has none. */
const char *tokenizer_content(const struct tokenizer *t, uint32_t id, size_t *bytes);

#endif
