/* Ids and decoded texts equal those of Hugging Face's library, for the tokenizers and strings of
 * tests/parity/make_tokenizers.py. The folder is tests/golden/tokenizers, or argv[1]:
 * tests/claims/llm 7 makes a larger one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"

#include "common/system/disk.h"
#include "common/web/json.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/tokenizer/utf8.h"

enum { FILE_BYTES_MAX = 1 << 29 };

static const char *folder = GOLDEN_DIR "/tokenizers";

static void read_file(const char *name, const char *end, char **text, size_t *bytes)
{
	char path[4096];
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
	CHECK_OK(disk_read_file(disk_system(), path, FILE_BYTES_MAX, text, bytes, &err), err);
}

static struct json *parse(const char *text, size_t bytes)
{
	struct json *j;
	weir_error err = {0};
	CHECK_OK(json_parse_strings(text, bytes, "golden", &j, &err), err);
	return j;
}

/* The decoder's text of the ids. It replaces each ill-formed piece, as Hugging Face's library
 * does. */
static struct buffer decode(struct decoder *d, const struct token_list *ids)
{
	struct buffer raw = {0}, out = {0};
	uint64_t replaced = 0;
	decoder_restart(d);
	for (size_t i = 0; i < ids->count; i++) {
		size_t more;
		const char *text = decoder_next(d, ids->ids[i], &more);
		assert_true(buffer_append(&raw, text, more, FILE_BYTES_MAX));
	}
	assert_true(utf8_repair(raw.data, raw.size, &out, FILE_BYTES_MAX, &replaced));
	buffer_destroy(&raw);
	return out;
}

struct subject {
	const char *name;
	struct tokenizer *tokenizer;
	struct encoder *encoder;
	struct decoder *decoder;
	struct json *golden;
};

static void compare(struct subject *s, size_t line, const char *text, size_t bytes)
{
	const struct json_value *root = json_root(s->golden), *wanted = json_element(json_member(root, "ids"), line);
	struct token_list ids = {0};
	weir_error err = {0};
	if (json_is_absent(wanted))
		return; /* characters whose normal forms depend on the Unicode version */
	CHECK_OK(encoder_run(s->encoder, text, bytes, &(struct encoding){.affixes = true}, &ids, &err), err);
	size_t same = 0;
	for (uint64_t id; same < ids.count && json_value_count(json_element(wanted, same), &id) && id == ids.ids[same];)
		same++;
	if (ids.count != json_length(wanted) || same != ids.count)
		fail_msg("%s, string %zu '%.200s': %zu tokens, expected %zu; the first %zu are equal", s->name, line, text, ids.count,
		         json_length(wanted), same);
	char key[32];
	size_t wanted_bytes = bytes;
	snprintf(key, sizeof key, "%zu", line);
	const char *other = json_value_text(json_member(json_member(root, "decoded"), key), &wanted_bytes);
	const char *wanted_text = other == NULL ? text : other;
	wanted_bytes = other == NULL ? bytes : wanted_bytes;
	struct buffer decoded = decode(s->decoder, &ids);
	if (decoded.size != wanted_bytes || (wanted_bytes > 0 && memcmp(decoded.data, wanted_text, wanted_bytes) != 0))
		fail_msg("%s, string %zu '%.200s': decoded as '%.*s', expected '%s'", s->name, line, text, (int)decoded.size,
		         decoded.data, wanted_text);
	buffer_destroy(&decoded);
	free(ids.ids);
}

static void check(const char *name)
{
	struct subject s = {.name = name};
	char path[4096], *golden, *strings;
	size_t golden_bytes, strings_bytes, lines = 0;
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s.json", folder, name);
	CHECK_OK(tokenizer_open(&s.tokenizer, path, &err), err);
	CHECK_OK(encoder_create(&s.encoder, s.tokenizer, &err), err);
	CHECK_OK(decoder_create(&s.decoder, s.tokenizer, true, &err), err);
	read_file(name, ".ids.json", &golden, &golden_bytes);
	read_file("strings", ".jsonl", &strings, &strings_bytes);
	s.golden = parse(golden, golden_bytes);
	for (char *at = strings, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, lines++) {
		struct json *line = parse(at, (size_t)(end - at));
		size_t bytes;
		const char *text = json_value_text(json_member(json_root(line), "text"), &bytes);
		assert_non_null(text);
		compare(&s, lines, text, bytes);
		json_destroy(line);
	}
	assert_true(lines > 100);
	assert_int_equal(lines, json_length(json_member(json_root(s.golden), "ids")));
	json_destroy(s.golden);
	free(golden);
	free(strings);
	decoder_destroy(s.decoder);
	encoder_destroy(s.encoder);
	tokenizer_close(s.tokenizer);
}

static void gpt2(void **state)
{
	(void)state;
	check("gpt2");
}

static void llama2(void **state)
{
	(void)state;
	check("llama2");
}

static void llama3(void **state)
{
	(void)state;
	check("llama3");
}

static void metaspace(void **state)
{
	(void)state;
	check("metaspace");
}

static void splits(void **state)
{
	(void)state;
	check("splits");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(gpt2), cmocka_unit_test(llama2), cmocka_unit_test(llama3),
	                                   cmocka_unit_test(metaspace), cmocka_unit_test(splits)};
	if (argc > 1)
		folder = argv[1];
	return cmocka_run_group_tests_name("tokenizer_parity", tests, NULL, NULL);
}
