/* Reads the messages of a JSONL record, in the forms of published data:
 *
 *   {"messages": [{"role": R, "content": C}]}                  "conversations" is the same
 *   {"conversations": [{"from": F, "value": C}]}               ShareGPT: human and gpt
 *   {"instruction": TEXT, "input": TEXT, "output": TEXT, "system": TEXT}
 *       Alpaca: one question, one answer; input may be missing or empty
 *
 * Each form may have the system's message as "system" beside the others. A content is a string, or
 * a list of {"type": "text", "text": TEXT}, which are concatenated. An input follows its
 * instruction after a newline, or as Alpaca's own format has it. Errors name what is refused: roles
 * other than those of the system, the user and the assistant, tool calls, and contents that are not
 * text. */
#ifndef WEIR_CONVERSATION_H
#define WEIR_CONVERSATION_H

#include "common/web/json.h"
#include "worker/data/tokens/chat.h"

struct conversation {
	/* (count) borrowed from the record or from `text` */
	struct chat_message messages[CHAT_MESSAGES_MAX];
	uint32_t count;
	struct buffer text; /* concatenated contents, each followed by a NUL */
};

/* Returns whether the record has a conversation. */
bool conversation_is(const struct json_value *record);
weir_status conversation_read(struct conversation *out, const struct json_value *record, enum chat_format format,
                              weir_error *err);

#endif
