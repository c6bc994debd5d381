/* Renders conversations as text, in the formats of instruction-tuned models:
 *
 *   chatml   <|im_start|>ROLE\nCONTENT<|im_end|>\n for each message
 *   llama2   BOS[INST] <<SYS>>\nSYSTEM\n<</SYS>>\n\nUSER [/INST] ASSISTANT EOS for each turn, the
 *            system's part in the first one only
 *   llama3   BOS<|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|> for each message,
 *            BOS before the first
 *   alpaca   SYSTEM (or Alpaca's own words)\n\n and for each turn
 *            ### Instruction:\nUSER\n\n### Response:\nASSISTANT EOS, turns after two newlines
 *
 * Contents lose surrounding white space, except in chatml and except llama2's SYSTEM. The
 * assistant's answers are marked, with the token that ends each: only these count in the loss.
 * chatml, llama2 and llama3 match the templates of those names in tokenizer_config.json
 * (tests/parity/make_chats.py). Other Jinja is not executed. */
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
/* Returns false if no format has this name. "auto" is CHAT_AUTO. */
bool chat_format_of(const char *name, enum chat_format *out);
/* Recognises the format of a Jinja template. The template must match verbatim, except for runs of
 * spaces, newlines written as \n, and the part that begins a requested answer. CHAT_NONE: another
 * template. */
enum chat_format chat_recognise(const char *jinja);
/* Replaces CHAT_AUTO by the format of the tokenizer's template (NULL: none). */
enum chat_format chat_settle(enum chat_format format, const char *jinja);

struct chat_message {
	const char *role, *content; /* NUL-terminated; the content may contain NULs */
	size_t content_bytes;
};

struct chat_text {
	struct buffer text;
	size_t answers[2 * CHAT_MESSAGES_MAX]; /* (2 * answers_count) begin and end of each */
	uint32_t answers_count;
};

/* Returns NULL, or a static text with the reason why these messages do not fit the format. bos,
 * eos: NULL if the tokenizer has none. */
const char *chat_render(enum chat_format format, const struct chat_message *messages, uint32_t count, const char *bos,
                        const char *eos, struct chat_text *out);

#endif
