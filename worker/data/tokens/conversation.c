#include "worker/data/tokens/conversation.h"

#include <string.h>

#include "worker/tokenizer/tokenizer.h"

static const char out_of_room[] = "the contents of its messages are too long";

/* --- Roles */

static const struct {
	const char *name, *role;
} roles[] = {{"system", "system"}, {"user", "user"},         {"human", "user"},     {"assistant", "assistant"},
             {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"}};

/* Returns NULL for an unknown role. */
static const char *role_of(const char *name)
{
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (strcmp(name, roles[i].name) == 0)
			return roles[i].role;
	return NULL;
}

/* --- Members that must not be dropped silently */

static bool is_empty(const struct json_value *v)
{
	size_t bytes;
	const char *text = json_value_text(v, &bytes);
	if (json_is_absent(v))
		return true;
	return text ? bytes == 0 : (json_is_list(v) || json_is_map(v)) && json_length(v) == 0;
}

/* Returns whether a member is empty or a weight of 1. */
static bool says_nothing(const struct json_value *v)
{
	uint64_t one;
	bool counts;
	return is_empty(v) || (json_value_count(v, &one) && one == 1) || (json_value_bool(v, true, &counts) && counts);
}

/* Returns the first of the names with a value in the object; NULL: none has one. */
static const char *unwritten(const struct json_value *object, const char *const *names)
{
	for (; *names; names++)
		if (!says_nothing(json_member(object, *names)))
			return *names;
	return NULL;
}

/* --- Contents */

static bool put(struct conversation *c, const char *text, size_t bytes)
{
	return buffer_append(&c->text, text, bytes, TOKENIZER_TEXT_BYTES_MAX);
}

/* Ends a message whose content is the text from `begin` on. settle() sets its pointer when the text
 * is complete. */
static weir_status end_content(struct conversation *c, struct chat_message *m, size_t begin, weir_error *err)
{
	m->content = NULL;
	m->content_bytes = c->text.size - begin;
	return put(c, "", 1) ? WEIR_OK : weir_fail(err, WEIR_E_LIMIT, "%s", out_of_room);
}

static void settle(struct conversation *c)
{
	size_t at = 0;
	for (uint32_t i = 0; i < c->count; i++) {
		struct chat_message *m = &c->messages[i];
		if (m->content)
			continue;
		m->content = c->text.data + at;
		at += m->content_bytes + 1;
	}
}

static weir_status read_parts(struct conversation *c, struct chat_message *m, const struct json_value *parts, uint32_t place,
                              weir_error *err)
{
	const size_t begin = c->text.size;
	for (size_t i = 0; i < json_length(parts); i++) {
		const struct json_value *part = json_element(parts, i);
		const char *type = json_value_text(json_member(part, "type"), NULL);
		size_t bytes;
		const char *text = json_value_text(json_member(part, "text"), &bytes);
		if (!type)
			return weir_fail(err, WEIR_E_INVALID, "message %u has a part without a \"type\": only parts of \"text\" are taken",
			                 place);
		if (strcmp(type, "text") != 0 || !text)
			return weir_fail(err, WEIR_E_INVALID, "message %u has a part of type \"%.24s\": only parts of \"text\" are taken",
			                 place, type);
		if (!put(c, text, bytes))
			return weir_fail(err, WEIR_E_LIMIT, "%s", out_of_room);
	}
	return end_content(c, m, begin, err);
}

/* --- Messages */

static weir_status read_message(struct conversation *c, const struct json_value *message, uint32_t place, weir_error *err)
{
	static const char *const left_out[] = {"tool_calls", "function_call", "refusal", "reasoning", "thinking", "reasoning_content",
	                                       "weight", /* this and the next two: weight in the loss */
	                                       "train",      "loss",          NULL};
	struct chat_message *m = &c->messages[c->count];
	const bool shared = json_member(message, "from") != NULL;
	const char *name = json_value_text(json_member(message, shared ? "from" : "role"), NULL);
	const struct json_value *content = json_member(message, shared ? "value" : "content");
	const char *extra = unwritten(message, left_out);
	if (extra)
		return weir_fail(err, WEIR_E_INVALID, "message %u has \"%s\", which conversations are not written with", place, extra);
	m->content = json_value_text(content, &m->content_bytes);
	if (!name || (!m->content && !json_is_list(content)))
		return weir_fail(err, WEIR_E_INVALID, "message %u has not both a \"%s\" and a \"%s\" that are texts", place,
		                 shared ? "from" : "role", shared ? "value" : "content");
	m->role = role_of(name);
	if (!m->role)
		return weir_fail(err, WEIR_E_INVALID, "message %u is of \"%.24s\"; expected system, user or assistant", place, name);
	return m->content ? WEIR_OK : read_parts(c, m, content, place, err);
}

/* A record may have the system's message beside its list. */
static weir_status read_system(struct conversation *c, const struct json_value *record, weir_error *err)
{
	const struct json_value *said = json_member(record, "system");
	struct chat_message m = {.role = "system"};
	m.content = json_value_text(said, &m.content_bytes);
	if (!m.content && !is_empty(said))
		return weir_fail(err, WEIR_E_INVALID, "its \"system\" is no text");
	if (m.content && m.content_bytes > 0)
		c->messages[c->count++] = m;
	return WEIR_OK;
}

static weir_status read_messages(struct conversation *c, const struct json_value *list, weir_error *err)
{
	const size_t count = json_length(list);
	if (count > CHAT_MESSAGES_MAX - c->count)
		return weir_fail(err, WEIR_E_LIMIT, "%zu messages; at most %u are taken", count, CHAT_MESSAGES_MAX);
	for (size_t i = 0; i < count; i++, c->count++) {
		const weir_status status = read_message(c, json_element(list, i), (uint32_t)i, err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

/* --- Alpaca */

static weir_status read_alpaca(struct conversation *c, const struct json_value *record, enum chat_format format, weir_error *err)
{
	static const char with_input[] = "Below is an instruction that describes a task, paired with an input that provides further "
	                                 "context. Write a response that appropriately completes the request.";
	const char *between = format == CHAT_ALPACA ? "\n\n### Input:\n" : "\n";
	struct chat_message answer = {.role = "assistant"};
	size_t bytes, input_bytes = 0;
	const char *instruction = json_value_text(json_member(record, "instruction"), &bytes);
	const char *input = json_value_text(json_member(record, "input"), &input_bytes);
	answer.content = json_value_text(json_member(record, "output"), &answer.content_bytes);
	if (!instruction || !answer.content)
		return weir_fail(err, WEIR_E_INVALID, "it has not both an \"instruction\" and an \"output\" that are texts");
	if (!input && !is_empty(json_member(record, "input")))
		return weir_fail(err, WEIR_E_INVALID, "its \"input\" is no text");
	if (input_bytes > 0 && c->count == 0 && format == CHAT_ALPACA)
		c->messages[c->count++] = (struct chat_message){"system", with_input, sizeof with_input - 1};
	struct chat_message *question = &c->messages[c->count++];
	*question = (struct chat_message){.role = "user"};
	c->messages[c->count++] = answer;
	if (!put(c, instruction, bytes) || (input_bytes > 0 && !(put(c, between, strlen(between)) && put(c, input, input_bytes))))
		return weir_fail(err, WEIR_E_LIMIT, "%s", out_of_room);
	return end_content(c, question, 0, err);
}

/* --- Records */

/* "messages", or ShareGPT's name for them. */
static const struct json_value *messages_of(const struct json_value *record)
{
	const struct json_value *messages = json_member(record, "messages");
	return json_is_list(messages) ? messages : json_member(record, "conversations");
}

bool conversation_is(const struct json_value *record)
{
	return json_is_list(messages_of(record)) || json_member(record, "instruction") != NULL;
}

weir_status conversation_read(struct conversation *c, const struct json_value *record, enum chat_format format, weir_error *err)
{
	static const char *const left_out[] = {"tools",  "functions", "history",  "images", "videos",
	                                       "audios", "chosen",    "rejected", NULL};
	const char *extra = unwritten(record, left_out);
	c->count = 0;
	c->text.size = 0;
	if (extra)
		return weir_fail(err, WEIR_E_INVALID, "it has \"%s\", which conversations are not written with", extra);
	weir_status status = read_system(c, record, err);
	if (status == WEIR_OK && json_is_list(messages_of(record)))
		status = read_messages(c, messages_of(record), err);
	else if (status == WEIR_OK)
		status = read_alpaca(c, record, format, err);
	settle(c);
	return status;
}
