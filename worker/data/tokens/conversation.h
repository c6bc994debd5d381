/* The messages of a record of JSONL, in the forms that published data have:
 *
 *   {"messages": [{"role": R, "content": C}]}                                "conversations" is the same
 *   {"conversations": [{"from": F, "value": C}]}                             ShareGPT: human and gpt
 *   {"instruction": TEXT, "input": TEXT, "output": TEXT, "system": TEXT}     Alpaca: one question, one answer; input may be missing or empty
 *
 * Each may have the system's message as "system" beside the others. A content is a text, or a
 * list of {"type": "text", "text": TEXT}, put together. An input is written behind its
 * instruction and a newline; in Alpaca's own format as that format has it. Roles other than
 * those of the system, the user and the assistant, calls of tools, and contents that are no text
 * are refused by name. */
#ifndef WEIR_CONVERSATION_H
#define WEIR_CONVERSATION_H

#include "common/web/json.h"
#include "worker/data/tokens/chat.h"

struct conversation {
	struct chat_message messages[CHAT_MESSAGES_MAX]; /* (count) borrowed from the record, or from text */
	uint32_t count;
	struct buffer text; /* contents that are put together, each with a NUL behind it */
};

/* Whether the record has one. */
bool conversation_is(const struct json_value *record);
weir_status conversation_read(struct conversation *out, const struct json_value *record, enum chat_format format,
                              weir_error *err);

#endif
