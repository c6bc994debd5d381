/* Tokenizers convert text to token ids and back. A tokenizer follows Hugging Face's tokenizer.json
 * (its BPE models: byte-level like those of GPT-2 and Llama 3, or of characters like Llama 2's), or
 * has a token per byte.
 *
 * A text passes these steps, each in its own file: find the added tokens (added.h), normalize the
 * text between them (normalizer.h), cut it into pieces (pre_tokenizer.h), and merge pairs in each
 * piece (bpe.h). The post-processor then adds tokens before and after the whole.
 *
 * The ids equal those of Hugging Face's library. This includes added tokens, whose ids in the file
 * the library ignores, and tokens that only the folder's other files name. A feature of a file that
 * is not supported is E_UNSUPPORTED, by name, when the file is opened. The file's truncation and
 * padding are ignored.
 *
 * A tokenizer does not change after it is opened: threads share it, each with its own encoder or
 * decoder. */
#ifndef WEIR_TOKENIZER_H
#define WEIR_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/tokenizer/bpe.h"

#define TOKENIZER_FILE_BYTES_MAX  (64u << 20)
#define TOKENIZER_TEXT_BYTES_MAX  (256u << 20) /* one text, also after normalization */
#define TOKENIZER_TOKEN_BYTES_MAX 65536u       /* one token of the vocabulary */
/* tokens that the post-processor adds before, or after, a text */
#define TOKENIZER_AFFIX_MAX    64u
#define TOKENIZER_TEMPLATE_MAX (1u << 20) /* a chat template */
#define TOKEN_NONE             UINT32_MAX

struct tokenizer_info {
	uint32_t vocabulary;       /* the largest id + 1 */
	uint32_t bos, eos;         /* TOKEN_NONE: the tokenizer has none */
	uint8_t fingerprint[16];   /* of the file: equal fingerprints give equal ids */
	bool bytes;                /* a token per byte: texts need not be UTF-8 */
	char *bos_text, *eos_text; /* NULL: the tokenizer has none */
	char *chat_template;       /* Jinja, as in the folder; NULL: none */
};

struct tokenizer;
/* Opens a tokenizer. place: "bytes", a folder, or a tokenizer.json file. The folder has
 * tokenizer.json, and may have these files, which are read as transformers reads them:
 * tokenizer_config.json, which names bos and eos and has the chat template,
 * special_tokens_map.json, and added_tokens.json; and also chat_template.jinja. Without a
 * tokenizer_config.json, bos and eos are recognised by the names that models give them. Errors name
 * the file and its part. */
weir_status tokenizer_open(struct tokenizer **out, const char *place, weir_error *err);
/* Parses the text of a tokenizer.json, without a folder. name: for errors. */
weir_status tokenizer_parse(struct tokenizer **out, const char *text, size_t bytes, const char *name, weir_error *err);
const struct tokenizer_info *tokenizer_get_info(const struct tokenizer *t);
/* The id of a token, also of an added one, by its content in the file; TOKEN_NONE: no such
 * token. */
uint32_t tokenizer_id(const struct tokenizer *t, const char *content, size_t bytes);
void tokenizer_close(struct tokenizer *t); /* NULL is allowed */

/* --- Text to ids */

/* A place in a text to encode, and the first token after it: all earlier tokens come from the text
 * before the place. */
struct text_mark {
	size_t at;    /* input: a byte */
	size_t token; /* output: an index into the list */
};
struct encoding {
	bool affixes;            /* add the post-processor's tokens: bos, for most models */
	struct text_mark *marks; /* (marks_count), in order; may be NULL */
	size_t marks_count;
};

struct encoder; /* for one thread; the tokenizer must outlive it */
weir_status encoder_create(struct encoder **out, const struct tokenizer *t, weir_error *err);
/* Appends the ids of a text. E_INVALID: not UTF-8, and from which byte on (a bytes tokenizer
 * accepts any text). E_LIMIT: too long. After a failure, `out` may contain some additional ids. */
weir_status encoder_run(struct encoder *e, const char *text, size_t bytes, const struct encoding *how, struct token_list *out,
                        weir_error *err);
void encoder_destroy(struct encoder *e); /* NULL is allowed */

/* --- Ids to text */

struct decoder; /* for one thread; the tokenizer must outlive it */
weir_status decoder_create(struct decoder **out, const struct tokenizer *t, bool skip_special, weir_error *err);
/* Returns the bytes that the next token adds to the text, valid until the next call. They are not
 * always whole characters (utf8_begins tells). An unknown id adds no bytes, and neither does a
 * special token that is skipped. The results for all tokens, one after the other, are the text. */
const char *decoder_next(struct decoder *d, uint32_t id, size_t *bytes);
void decoder_restart(struct decoder *d); /* starts another text */
void decoder_destroy(struct decoder *d); /* NULL is allowed */

#endif
