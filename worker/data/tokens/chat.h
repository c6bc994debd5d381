/* Conversations as texts, in the formats that instruction-tuned models know:
 *
 *   chatml   <|im_start|>ROLE\nCONTENT<|im_end|>\n for each message
 *   llama2   BOS[INST] <<SYS>>\nSYSTEM\n<</SYS>>\n\nUSER [/INST] ASSISTANT EOS for each turn, the system's part in the first one alone
 *   llama3   BOS<|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|> for each message, BOS before the first
 *   alpaca   SYSTEM (or Alpaca's own words)\n\n and of each turn ### Instruction:\nUSER\n\n### Response:\nASSISTANT EOS, turns after two newlines
 *
 * Contents lose the white space around them, but chatml's. What assistants answer, with the token that ends it, is marked: only that counts in the loss.
 * chatml, llama2 and llama3 are what the templates of those names in tokenizer_config.json make (tests/parity/make_chats.py); other Jinja is not executed. */
#ifndef WEIR_CHAT_H
#define WEIR_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/job.h"
#include "weir/status.h"
#include "worker/tokenizer/buffer.h"

#define CHAT_MESSAGES_MAX 1024u

const char *chat_format_name(enum chat_format format);
/* False: there is none of this name. "auto" is CHAT_AUTO. */
bool chat_format_of(const char *name, enum chat_format *out);
/* The format that a Jinja template is, verbatim but for runs of spaces, newlines written as \n, and what it adds when an answer is asked for. CHAT_NONE: another. */
enum chat_format chat_recognise(const char *jinja);
/* CHAT_AUTO becomes what the tokenizer's template (NULL: none) is; others stay. */
enum chat_format chat_settle(enum chat_format format, const char *jinja);

struct chat_message {
	const char *role, *content; /* NUL-terminated; the content may have NULs in it */
	size_t content_bytes;
};

struct chat_text {
	struct buffer text;
	size_t answers[2 * CHAT_MESSAGES_MAX]; /* (2 * answers_count) where each begins, and ends */
	uint32_t answers_count;
};

/* NULL, or why these messages are no conversation of this format (static). bos, eos: NULL where the tokenizer has none. */
const char *chat_render(enum chat_format format, const struct chat_message *messages, uint32_t count, const char *bos,
                        const char *eos, struct chat_text *out);

#endif
