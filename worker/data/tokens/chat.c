#include "worker/data/tokens/chat.h"

#include <string.h>

#include "worker/tokenizer/tokenizer.h"
#include "worker/tokenizer/utf8.h"

static const char *const names[] = {[CHAT_AUTO] = "auto",     [CHAT_NONE] = "none",     [CHAT_CHATML] = "chatml",
                                    [CHAT_LLAMA2] = "llama2", [CHAT_LLAMA3] = "llama3", [CHAT_ALPACA] = "alpaca"};

const char *chat_format_name(enum chat_format format)
{
	return names[format];
}

bool chat_format_of(const char *name, enum chat_format *out)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(name, names[i]) == 0) {
			*out = (enum chat_format)i;
			return true;
		}
	}
	return false;
}

/* --- Known templates, as models publish them, but with one space for each run of spaces. */

static const struct {
	enum chat_format format;
	/* asking: may follow the template; it begins a requested answer. */
	const char *jinja, *asking;
} known[] = {
    {CHAT_CHATML,
     "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% "
     "endfor %}",
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"},
    {CHAT_LLAMA2,
     "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
     "messages[0]['content'] %}"
     "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
     "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
     "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
     "{% if loop.index0 == 0 and system_message != false %}"
     "{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}"
     "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
     "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
     "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
     ""},
    {CHAT_LLAMA3,
     "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
     "message['role'] + "
     "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
     "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}",
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"},
};

/* Returns whether the text continues with `part`, and moves *text behind it. */
static bool follows(const char **text, const char *part)
{
	const char *t = *text;
	for (; *part != 0; part++) {
		if (*part == '\n' && t[0] == '\\' && t[1] == 'n')
			t += 2;
		else if (*t++ != *part)
			return false;
		while (*part == ' ' && *t == ' ')
			t++;
	}
	*text = t;
	return true;
}

enum chat_format chat_recognise(const char *jinja)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const char *at = jinja;
		if (!follows(&at, known[i].jinja))
			continue;
		(void)follows(&at, known[i].asking);
		if (at[strspn(at, "\n")] == 0)
			return known[i].format;
	}
	return CHAT_NONE;
}

enum chat_format chat_settle(enum chat_format format, const char *jinja)
{
	return format != CHAT_AUTO ? format : !jinja ? CHAT_NONE : chat_recognise(jinja);
}

/* --- Rendering */

static const char out_of_memory[] = "it is too long";

static bool put(struct chat_text *out, const char *text, size_t bytes)
{
	return buffer_append(&out->text, text, bytes, TOKENIZER_TEXT_BYTES_MAX);
}

static bool put_text(struct chat_text *out, const char *text)
{
	return put(out, text, strlen(text));
}

/* White space of Python's strip, and so of Jinja's trim. */
static bool is_space(uint32_t c)
{
	return (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Returns the message without surrounding white space. The content must be valid UTF-8. */
static struct chat_message trimmed(struct chat_message m)
{
	size_t begin = 0, end = m.content_bytes;
	for (size_t at = 0; at < end && is_space(utf8_next(m.content, &at));)
		begin = at;
	while (end > begin) {
		size_t character = end - 1;
		while (((uint8_t)m.content[character] & 0xc0) == 0x80)
			character--;
		size_t at = character;
		if (!is_space(utf8_next(m.content, &at)))
			break;
		end = character;
	}
	m.content += begin;
	m.content_bytes = end - begin;
	return m;
}

static bool is_role(const struct chat_message *m, const char *role)
{
	return strcmp(m->role, role) == 0;
}

static void begin_answer(struct chat_text *out)
{
	out->answers[2 * out->answers_count] = out->text.size;
}

static void end_answer(struct chat_text *out)
{
	out->answers[2 * out->answers_count++ + 1] = out->text.size;
}

/* Writes: before ROLE between CONTENT after behind. An answer consists of the content and
 * `after`. */
static bool put_message(struct chat_text *out, const struct chat_message *m, const char *before, const char *between,
                        const char *after, const char *behind)
{
	bool good = put_text(out, before) && put_text(out, m->role) && put_text(out, between);
	if (is_role(m, "assistant"))
		begin_answer(out);
	good = good && put(out, m->content, m->content_bytes) && put_text(out, after);
	if (is_role(m, "assistant"))
		end_answer(out);
	return good && put_text(out, behind);
}

static const char *render_headers(enum chat_format format, const struct chat_message *messages, uint32_t count, const char *bos,
                                  struct chat_text *out)
{
	bool good = format == CHAT_CHATML || put_text(out, !bos ? "" : bos);
	for (uint32_t i = 0; i < count && good; i++) {
		const struct chat_message m = trimmed(messages[i]);
		good = format == CHAT_CHATML ? put_message(out, &messages[i], "<|im_start|>", "\n", "<|im_end|>", "\n")
		                             : put_message(out, &m, "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "");
	}
	return good ? NULL : out_of_memory;
}

/* Checks for turns of user and assistant, without the system's message. */
static const char *check_turns(const struct chat_message *messages, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!is_role(&messages[i], i % 2 == 0 ? "user" : "assistant"))
			return "its roles are not user, assistant, user, assistant and so on, behind one of system or none";
	return NULL;
}

/* Writes the user's content after the system's, without white space around the two. */
static bool put_instruction(struct chat_text *out, const struct chat_message *system, const struct chat_message *user)
{
	if (!system) {
		const struct chat_message m = trimmed(*user);
		return put(out, m.content, m.content_bytes);
	}
	struct chat_message m = trimmed(*user);
	/* The text begins with "<<SYS>>", so only its end can have white space, and that belongs to the
	 * user. */
	m.content_bytes += (size_t)(m.content - user->content);
	m.content = user->content;
	if (!put_text(out, "<<SYS>>\n") || !put(out, system->content, system->content_bytes))
		return false;
	if (trimmed(*user).content_bytes == 0)
		return put_text(out, "\n<</SYS>>"); /* the user's content is only white space */
	return put_text(out, "\n<</SYS>>\n\n") && put(out, m.content, m.content_bytes);
}

static const char *render_llama2(const struct chat_message *messages, uint32_t count, const char *bos, const char *eos,
                                 struct chat_text *out)
{
	const struct chat_message *system = count > 0 && is_role(&messages[0], "system") ? messages : NULL;
	const struct chat_message *turns = messages + (system != NULL);
	count -= system != NULL;
	const char *why = check_turns(turns, count);
	if (why)
		return why;
	bool good = true;
	for (uint32_t i = 0; i < count && good; i++) {
		const struct chat_message m = trimmed(turns[i]);
		if (i % 2 == 0) {
			good = put_text(out, bos) && put_text(out, "[INST] ") && put_instruction(out, i == 0 ? system : NULL, &turns[i]) &&
			       put_text(out, " [/INST]");
			continue;
		}
		begin_answer(out);
		good = put_text(out, " ") && put(out, m.content, m.content_bytes) && put_text(out, " ") && put_text(out, eos);
		end_answer(out);
	}
	return good ? NULL : out_of_memory;
}

static const char *render_alpaca(const struct chat_message *messages, uint32_t count, const char *eos, struct chat_text *out)
{
	static const char words[] =
	    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
	const struct chat_message *system = count > 0 && is_role(&messages[0], "system") ? messages : NULL;
	const struct chat_message *turns = messages + (system != NULL);
	count -= system != NULL;
	const char *why = check_turns(turns, count);
	if (why)
		return why;
	const struct chat_message first =
	    !system ? (struct chat_message){.content = words, .content_bytes = sizeof words - 1} : trimmed(*system);
	bool good = put(out, first.content, first.content_bytes);
	for (uint32_t i = 0; i < count && good; i++) {
		const struct chat_message m = trimmed(turns[i]);
		good = put_text(out, i % 2 == 0 ? "\n\n### Instruction:\n" : "\n\n### Response:\n");
		if (i % 2 != 0)
			begin_answer(out);
		good = good && put(out, m.content, m.content_bytes) && (i % 2 == 0 || put_text(out, eos));
		if (i % 2 != 0)
			end_answer(out);
	}
	return good ? NULL : out_of_memory;
}

const char *chat_render(enum chat_format format, const struct chat_message *messages, uint32_t count, const char *bos,
                        const char *eos, struct chat_text *out)
{
	out->text.size = 0;
	out->answers_count = 0;
	if (count > CHAT_MESSAGES_MAX)
		return "it has more than 1024 messages";
	switch (format) {
	case CHAT_CHATML:
	case CHAT_LLAMA3:
		return render_headers(format, messages, count, bos, out);
	case CHAT_LLAMA2:
		return !bos || !eos ? "llama2 needs a tokenizer with bos and eos" : render_llama2(messages, count, bos, eos, out);
	case CHAT_ALPACA:
		return !eos ? "alpaca needs a tokenizer with eos" : render_alpaca(messages, count, eos, out);
	default:
		return "it is a conversation, and no chat format was named (--chat, data.chat), nor is the tokenizer's template one that "
		       "is known";
	}
}
