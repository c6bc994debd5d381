/* Encodes a training record, one line of JSONL, as a document of tokens:
 *
 *   {"text": TEXT}                              all tokens count in the loss
 *   {"prompt": TEXT, "completion": TEXT}        concatenated; the completion's tokens count
 *   {"messages": [{"role": R, "content": C}]}   a conversation (chat.h); the assistant's answers
 *                                               count; other forms: conversation.h
 *
 * The first two begin with bos and end with eos, if the tokenizer has them. The format of a
 * conversation determines how it begins and ends. Texts are encoded whole, never in parts, so that
 * the ids are those that the model sees in use. A token that spans the end of a prompt and the
 * start of its completion counts. */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H

#include "worker/data/tokens/chat.h"
#include "worker/tokenizer/tokenizer.h"

/* Version of how files become documents. A cache of another version is rebuilt. Version 1 predates
 * byte order marks, JSON arrays and other forms of conversations. */
#define RECORD_VERSION 2u

struct record_options {
	const struct tokenizer *tokenizer;
	enum chat_format chat;
	uint32_t eos; /* TOKEN_NONE: none */
};

/* Documents, one after another. */
struct documents {
	struct token_list ids;
	uint8_t *counts; /* (counts_capacity) whether each id counts */
	size_t counts_capacity;
	size_t *ends; /* (count) into ids */
	bool *masked; /* (count) some of its tokens do not count */
	size_t count, capacity;
};
void documents_clear(struct documents *d); /* keeps the memory */
void documents_destroy(struct documents *d);

struct record_encoder; /* owned by one thread */
weir_status record_encoder_create(struct record_encoder **out, const struct record_options *o, weir_error *err);
void record_encoder_destroy(struct record_encoder *e); /* NULL is allowed */

/* Appends the document of a text or of a line of JSONL, which must be valid UTF-8 unless bytes are
 * tokens. Leaves out a document without tokens. Failures other than E_MEMORY are the record's own.
 * A failure appends nothing. */
weir_status record_add_text(struct record_encoder *e, const char *text, size_t bytes, struct documents *out, weir_error *err);
weir_status record_add_line(struct record_encoder *e, const char *line, size_t bytes, struct documents *out, weir_error *err);

#endif
