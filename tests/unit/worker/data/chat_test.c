/* Conversations become the texts that Jinja renders, with marked answers. A template is recognized
 * by its text. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/system/disk.h"
#include "common/web/json.h"
#include "worker/data/tokens/chat.h"

enum { FILE_BYTES_MAX = 1 << 20 };

static uint32_t take_messages(const struct json_value *list, struct chat_message *out)
{
	const uint32_t count = (uint32_t)json_length(list);
	for (uint32_t i = 0; i < count; i++) {
		out[i].role = json_value_text(json_member(json_element(list, i), "role"), NULL);
		out[i].content = json_value_text(json_member(json_element(list, i), "content"), &out[i].content_bytes);
	}
	return count;
}

static void compare(const struct json_value *line, struct chat_text *out)
{
	struct chat_message messages[16];
	enum chat_format format;
	size_t bytes;
	const char *name = json_value_text(json_member(line, "format"), NULL),
	           *template = json_value_text(json_member(line, "template"), NULL);
	const char *text = json_value_text(json_member(line, "text"), &bytes);
	const uint32_t count = take_messages(json_member(line, "messages"), messages);
	assert_true(chat_format_of(name, &format));
	assert_int_equal(chat_recognise(template), format == CHAT_ALPACA ? CHAT_NONE : format);
	assert_null(chat_render(format, messages, count, json_value_text(json_member(line, "bos"), NULL),
	                        json_value_text(json_member(line, "eos"), NULL), out));
	if (out->text.size != bytes || memcmp(out->text.data, text, bytes) != 0)
		fail_msg("%s: '%.*s', expected '%s'", name, (int)out->text.size, out->text.data, text);
	const struct json_value *answers = json_member(line, "answers");
	assert_int_equal(out->answers_count, json_length(answers));
	for (uint32_t i = 0; i < 2 * out->answers_count; i++) {
		uint64_t at;
		assert_true(json_value_count(json_element(json_element(answers, i / 2), i % 2), &at));
		assert_int_equal(out->answers[i], at);
	}
}

static void texts_are_those_of_jinja(void **state)
{
	(void)state;
	char *text;
	size_t bytes, lines = 0;
	weir_error err = {0};
	struct chat_text *out = calloc(1, sizeof *out);
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/chats.jsonl", FILE_BYTES_MAX, &text, &bytes, &err), err);
	for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, lines++) {
		struct json *j;
		CHECK_OK(json_parse_strings(at, (size_t)(end - at), "golden", &j, &err), err);
		compare(json_root(j), out);
		json_destroy(j);
	}
	assert_true(lines >= 30);
	buffer_destroy(&out->text);
	free(out);
	free(text);
}

static void other_templates_are_not_taken_for_known_ones(void **state)
{
	(void)state;
	static const char chatml[] =
	    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
	    "'\\n'}}{% endfor %}";
	char other[512];
	assert_int_equal(chat_recognise(chatml), CHAT_CHATML);
	snprintf(other, sizeof other, "%s\n", chatml);
	assert_int_equal(chat_recognise(other), CHAT_CHATML);
	snprintf(other, sizeof other, "%s ", chatml);
	assert_int_equal(chat_recognise(other), CHAT_NONE);
	snprintf(other, sizeof other, "x%s", chatml);
	assert_int_equal(chat_recognise(other), CHAT_NONE);
	/* without any one of its characters, except one of two spaces */
	for (size_t i = 0; i < sizeof chatml - 1; i++) {
		memcpy(other, chatml, i);
		memcpy(other + i, chatml + i + 1, sizeof chatml - i - 1);
		assert_int_equal(chat_recognise(other), CHAT_NONE);
	}
	assert_int_equal(chat_recognise(""), CHAT_NONE);
}

static const char *why(enum chat_format format, const char *const *roles, uint32_t count, const char *bos, const char *eos)
{
	static struct chat_text out;
	struct chat_message messages[4];
	for (uint32_t i = 0; i < count; i++)
		messages[i] = (struct chat_message){roles[i], "x", 1};
	const char *reason = chat_render(format, messages, count, bos, eos, &out);
	buffer_destroy(&out.text);
	return reason == NULL ? "" : reason;
}

static void a_false_conversation_is_reported(void **state)
{
	(void)state;
	CHECK_CONTAINS(why(CHAT_LLAMA2, (const char *const[]){"assistant", "user"}, 2, "<s>", "</s>"),
	               "its roles are not user, assistant");
	CHECK_CONTAINS(why(CHAT_ALPACA, (const char *const[]){"system", "system"}, 2, "<s>", "</s>"),
	               "its roles are not user, assistant");
	CHECK_CONTAINS(why(CHAT_LLAMA2, (const char *const[]){"user"}, 1, NULL, "</s>"), "bos and eos");
	CHECK_CONTAINS(why(CHAT_ALPACA, (const char *const[]){"user"}, 1, NULL, NULL), "with eos");
	CHECK_CONTAINS(why(CHAT_NONE, (const char *const[]){"user"}, 1, NULL, NULL), "no chat format was named");
	assert_string_equal(why(CHAT_CHATML, (const char *const[]){"tool", "anyone"}, 2, NULL, NULL), "");
	assert_string_equal(why(CHAT_LLAMA3, (const char *const[]){"user"}, 1, NULL, NULL), "");
	enum chat_format f;
	assert_false(chat_format_of("mistral", &f));
	assert_string_equal(chat_format_name(CHAT_LLAMA2), "llama2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_those_of_jinja),
	                                   cmocka_unit_test(other_templates_are_not_taken_for_known_ones),
	                                   cmocka_unit_test(a_false_conversation_is_reported)};
	return cmocka_run_group_tests_name("data_chat", tests, NULL, NULL);
}
