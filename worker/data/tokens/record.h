/* A record of training text, as one line of JSONL has it, to a document of tokens:
 *
 *   {"text": TEXT}                              all tokens count in the loss
 *   {"prompt": TEXT, "completion": TEXT}        the two together, of which the completion's tokens count
 *   {"messages": [{"role": R, "content": C}]}   a conversation (chat.h), of which the assistant's answers count; in other forms, too (conversation.h)
 *
 * The first two begin with bos and end with eos where the tokenizer has them; what a
 * conversation begins and ends with is in its format. Texts are encoded whole, never in parts,
 * so that the ids are those that the model sees when it is used; a token that reaches from a
 * prompt into a completion counts. */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H

#include "worker/data/tokens/chat.h"
#include "worker/tokenizer/tokenizer.h"

/* Of how files become documents: a cache of another version is made anew. 1: before marks, JSON
 * arrays and other forms of conversations were taken. */
#define RECORD_VERSION 2u

struct record_options {
	const struct tokenizer *tokenizer;
	enum chat_format chat;
	uint32_t eos; /* TOKEN_NONE: none */
};

/* Documents, one behind the other. */
struct documents {
	struct token_list ids;
	uint8_t *counts; /* (counts_capacity) whether each of the ids counts */
	size_t counts_capacity;
	size_t *ends; /* (count) into ids */
	bool *masked; /* (count) not all of its tokens count */
	size_t count, capacity;
};
void documents_clear(struct documents *d); /* keeps the memory */
void documents_free(struct documents *d);

struct record_encoder; /* of a thread */
weir_status record_encoder_create(struct record_encoder **out, const struct record_options *o, weir_error *err);
void record_encoder_free(struct record_encoder *e); /* NULL is allowed */

/* Appends the document of a text, or of a line of JSONL (valid UTF-8; bytes take any). One without a token is left out. E_MEMORY aside, a failure is the record's own, and
 * nothing is appended then. */
weir_status record_add_text(struct record_encoder *e, const char *text, size_t bytes, struct documents *out, weir_error *err);
weir_status record_add_line(struct record_encoder *e, const char *line, size_t bytes, struct documents *out, weir_error *err);

#endif
