/* Tokenizers: text to token ids and back, as Hugging Face's tokenizer.json says (its BPE models:
 * byte-level as GPT-2's and Llama 3's, of characters as Llama 2's), or a byte for a token.
 *
 * A text goes this way, each step a file: added tokens are found (added.h), the text between
 * them is normalized (normalizer.h) and cut into pieces (pre_tokenizer.h), whose pairs are
 * merged (bpe.h); the post-processor puts tokens before and behind it all. The ids are those of
 * Hugging Face's own library, also of added tokens, whose ids in the file count for nothing
 * there, and of those that only the folder's other files name. What a file asks for that is not
 * done here is E_UNSUPPORTED, by name, when it is opened. Its truncation and padding are not
 * looked at.
 *
 * A tokenizer does not change once it is open: threads share it, each with an encoder or a
 * decoder of its own. */
#ifndef WEIR_TOKENIZER_H
#define WEIR_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/tokenizer/bpe.h"

#define TOKENIZER_FILE_BYTES_MAX  (64u << 20)
#define TOKENIZER_TEXT_BYTES_MAX  (256u << 20) /* of one text, also once it is normalized */
#define TOKENIZER_TOKEN_BYTES_MAX 65536u       /* of a token of the vocabulary */
#define TOKENIZER_AFFIX_MAX       64u          /* tokens that the post-processor puts before, or behind, a text */
#define TOKENIZER_TEMPLATE_MAX    (1u << 20)   /* bytes of a chat template */
#define TOKEN_NONE                UINT32_MAX

struct tokenizer_info {
	uint32_t vocabulary;       /* the greatest id + 1 */
	uint32_t bos, eos;         /* TOKEN_NONE: there is none */
	uint8_t fingerprint[16];   /* of the file: equal ones give equal ids */
	bool bytes;                /* a byte is a token: texts need not be UTF-8 */
	char *bos_text, *eos_text; /* NULL: there is none */
	char *chat_template;       /* Jinja, as the folder has it; NULL: none */
};

struct tokenizer;
/* place: "bytes"; a folder with tokenizer.json, and perhaps tokenizer_config.json, which names
 * bos and eos and has the chat template, special_tokens_map.json and added_tokens.json, as
 * transformers reads them, and chat_template.jinja; or such a file. Without a
 * tokenizer_config.json, bos and eos are told by the names that models give them. Errors name
 * the file and its part. */
weir_status tokenizer_open(struct tokenizer **out, const char *place, weir_error *err);
/* The text of a tokenizer.json, without a folder; name: for errors. */
weir_status tokenizer_parse(struct tokenizer **out, const char *text, size_t bytes, const char *name, weir_error *err);
const struct tokenizer_info *tokenizer_get_info(const struct tokenizer *t);
/* The id of a token as the file has it, of an added one too; TOKEN_NONE: there is none. */
uint32_t tokenizer_id(const struct tokenizer *t, const char *content, size_t bytes);
void tokenizer_close(struct tokenizer *t); /* NULL is allowed */

/* --- Text to ids */

/* A place in a text that is encoded, and which token is the first behind it: all tokens before are of what stands before it. */
struct text_mark {
	size_t at;    /* given: byte */
	size_t token; /* found: index into the list */
};
struct encoding {
	bool affixes;            /* with what the post-processor adds: bos, for most models */
	struct text_mark *marks; /* (marks_count), in order; may be NULL */
	size_t marks_count;
};

struct encoder; /* of a thread; the tokenizer must outlive it */
weir_status encoder_create(struct encoder **out, const struct tokenizer *t, weir_error *err);
/* Appends the text's ids. E_INVALID: it is not UTF-8, from which byte on (bytes take any text). E_LIMIT: it is too long. After a failure `out` may have some ids more. */
weir_status encoder_run(struct encoder *e, const char *text, size_t bytes, const struct encoding *how, struct token_list *out,
                        weir_error *err);
void encoder_free(struct encoder *e); /* NULL is allowed */

/* --- Ids to text */

struct decoder; /* of a thread; the tokenizer must outlive it */
weir_status decoder_create(struct decoder **out, const struct tokenizer *t, bool skip_special, weir_error *err);
/* What the next token adds to the text, valid until the next call. Bytes, not always whole characters (utf8_begins tells); no bytes for an id that is no token's,
 * and for special tokens where they are skipped. The texts of all tokens, one behind the other, are the text. */
const char *decoder_next(struct decoder *d, uint32_t id, size_t *bytes);
void decoder_restart(struct decoder *d); /* another text begins */
void decoder_free(struct decoder *d);    /* NULL is allowed */

#endif
