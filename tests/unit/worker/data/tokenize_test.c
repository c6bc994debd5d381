/* Text files become token files: counted tokens, bad lines and bytes, and the same file from any
 * number of threads. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/worker/data/fixture.h"

#include "common/base/prng.h"
#include "common/system/disk.h"
#include "worker/data/tokens/tokenize_files.h"

static struct tokenizer *tokenizer_of(const char *name)
{
	struct tokenizer *t;
	char path[512];
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/tokenizers/%s.json", GOLDEN_DIR, name);
	CHECK_OK(tokenizer_open(&t, strcmp(name, "bytes") == 0 ? name : path, &err), err);
	return t;
}

struct run {
	struct tokenizer *tokenizer;
	struct tokenize_options options;
	struct sources sources;
	char path[256];
	struct token_file_info info;
};

static void run_begin(struct run *r, const struct folder *f, const char *tokenizer, const char *pattern)
{
	char whole[256], *patterns[] = {whole};
	weir_error err = {0};
	*r = (struct run){.tokenizer = tokenizer_of(tokenizer)};
	snprintf(whole, sizeof whole, "%s/%s", f->path, pattern);
	snprintf(r->path, sizeof r->path, "%s/out.bin", f->path);
	CHECK_OK(sources_find(&r->sources, patterns, 1, SOURCES_BY_PATH, NULL, &err), err);
	r->options = (struct tokenize_options){.sources = &r->sources,
	                                       .record = {.tokenizer = r->tokenizer, .eos = tokenizer_get_info(r->tokenizer)->eos},
	                                       .threads = 1,
	                                       .bad_lines_max = 100};
}

static void run_end(struct run *r)
{
	sources_destroy(&r->sources);
	tokenizer_close(r->tokenizer);
}

/* The document's text, or with `counted` only that of the counted tokens. */
static char *text_of(const struct run *r, uint64_t document, bool counted)
{
	struct token_file *f;
	struct decoder *d;
	weir_error err = {0};
	CHECK_OK(token_file_open(&f, r->path, &err), err);
	CHECK_OK(decoder_create(&d, r->tokenizer, false, &err), err);
	const uint64_t first = document == 0 ? 0 : token_file_end(f, document - 1), count = token_file_end(f, document) - first;
	uint32_t *ids = malloc(count * sizeof *ids);
	uint8_t *counts = malloc(count);
	struct buffer out = {0};
	CHECK_OK(token_file_read(f, first, count, ids, counts, &err), err);
	for (uint64_t i = 0; i < count; i++) {
		size_t bytes;
		const char *text = decoder_next(d, ids[i], &bytes);
		assert_true(buffer_append(&out, text, counted && !counts[i] ? 0 : bytes, 1 << 20));
	}
	assert_true(buffer_append(&out, "", 1, 1 << 20));
	free(ids);
	free(counts);
	decoder_destroy(d);
	token_file_close(f);
	return out.data;
}

static void expect_text(const struct run *r, uint64_t document, const char *all, const char *counted)
{
	char *got_all = text_of(r, document, false), *got_counted = text_of(r, document, true);
	assert_string_equal(got_all, all);
	assert_string_equal(got_counted, counted);
	free(got_all);
	free(got_counted);
}

static void texts_are_documents_that_end(void **state)
{
	const struct folder *f = *state;
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "a.txt", "First file.\n", 12, path);
	write_compressed(f, "b.txt.gz", TEXT_GZIP, "The second,\nof two lines", 24, path);
	write_bytes(f, "c.txt", "", 0, path);
	run_begin(&r, f, "llama3", "?.txt*");
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	assert_int_equal(r.info.documents, 2);
	assert_false(r.info.masked);
	expect_text(&r, 0, "<|begin_of_text|>First file.\n<|end_of_text|>", "<|begin_of_text|>First file.\n<|end_of_text|>");
	expect_text(&r, 1, "<|begin_of_text|>The second,\nof two lines<|end_of_text|>",
	            "<|begin_of_text|>The second,\nof two lines<|end_of_text|>");
	r.options.record.eos = TOKEN_NONE;
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	expect_text(&r, 0, "<|begin_of_text|>First file.\n", "<|begin_of_text|>First file.\n");
	run_end(&r);
}

static void prompts_and_questions_do_not_count(void **state)
{
	const struct folder *f = *state;
	static const char lines[] =
	    "{\"text\": \"All of it\"}\n"
	    "\n  \r\n"
	    "{\"prompt\": \"Two and two is\", \"completion\": \" four.\"}\n"
	    "{\"prompt\": \"\", \"completion\": \"x\"}\n"
	    "{\"prompt\": \"only\", \"completion\": \"\"}\n"
	    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello \\u0000.\"},"
	    " {\"role\": \"user\", \"content\": \"2\"}, {\"role\": \"assistant\", \"content\": \"two\"}]}\n"
	    "{\"text\": \"\"}";
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "records.jsonl", lines, sizeof lines - 1, path);
	run_begin(&r, f, "llama3", "records.jsonl");
	r.options.record.chat = CHAT_LLAMA3;
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	assert_int_equal(r.info.documents, 5);
	assert_true(r.info.masked && r.info.bad_records == 0);
	expect_text(&r, 0, "<|begin_of_text|>All of it<|end_of_text|>", "<|begin_of_text|>All of it<|end_of_text|>");
	expect_text(&r, 1, "<|begin_of_text|>Two and two is four.<|end_of_text|>", " four.<|end_of_text|>");
	expect_text(&r, 2, "<|begin_of_text|>x<|end_of_text|>", "x<|end_of_text|>");
	expect_text(&r, 3, "<|begin_of_text|>only<|end_of_text|>", "<|end_of_text|>");
	char *all = text_of(&r, 4, true);
	assert_string_equal(all, "Hello "); /* the zero byte ends the C string here */
	assert_string_equal(all + 7, ".<|eot_id|>two<|eot_id|>");
	free(all);
	run_end(&r);
}

/* One conversation in several record forms: its text and the counted part. */
static void conversations_come_in_several_forms(void **state)
{
	const struct folder *f = *state;
	static const char lines[] =
	    "\xef\xbb\xbf{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
	    "\"text\", \"text\": "
	    "\"b\"}]}, {\"role\": \"assistant\", \"content\": \"yo\"}]}\r\n"
	    "{\"conversations\": [{\"from\": \"human\", \"value\": \"ab\"}, {\"from\": \"gpt\", \"value\": \"yo\"}], \"id\": \"x\"}\n"
	    "{\"conversations\": [{\"role\": \"user\", \"content\": \"ab\"}, {\"role\": \"assistant\", \"content\": [{\"type\": "
	    "\"text\", \"text\": "
	    "\"yo\"}], \"tool_calls\": null, \"weight\": 1}], \"tools\": []}\n"
	    "{\"instruction\": \"ab\", \"input\": \"\", \"output\": \"yo\", \"history\": []}\n"
	    "{\"system\": \"s\", \"instruction\": \"a\", \"input\": \"b\", \"output\": \"yo\"}\n"
	    "{\"system\": \"s\", \"conversations\": [{\"from\": \"human\", \"value\": \"a\\nb\"}, {\"from\": \"gpt\", \"value\": "
	    "\"yo\"}]}\n";
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "forms.jsonl", lines, sizeof lines - 1, path);
	run_begin(&r, f, "bytes", "forms.jsonl");
	r.options.record.chat = CHAT_CHATML;
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	assert_int_equal(r.info.documents, 6);
	for (uint64_t i = 0; i < 4; i++)
		expect_text(&r, i, "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n", "yo<|im_end|>");
	for (uint64_t i = 4; i < 6; i++)
		expect_text(&r, i,
		            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n",
		            "yo<|im_end|>");
	run_end(&r);
}

/* Alpaca's published wording, also with an input. */
static void alpaca_is_written_as_it_was_published(void **state)
{
	const struct folder *f = *state;
	static const char lines[] = "[{\"instruction\": \"Add.\", \"input\": \"1, 2\", \"output\": \"3\"},\n"
	                            " {\"instruction\": \"Greet.\", \"input\": \"\", \"output\": \"Hi.\"}]";
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "alpaca.json", lines, sizeof lines - 1, path);
	run_begin(&r, f, "llama3", "alpaca.json");
	r.options.record.chat = CHAT_ALPACA;
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	expect_text(&r, 0,
	            "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
	            "response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1, 2\n\n### "
	            "Response:\n3<|end_of_text|>",
	            "3<|end_of_text|>");
	expect_text(
	    &r, 1,
	    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### "
	    "Instruction:\nGreet.\n\n### Response:\nHi.<|end_of_text|>",
	    "Hi.<|end_of_text|>");
	run_end(&r);
}

/* A file of this line gives no document: refused with the line's reason; the old output stays. */
static void expect_nothing(const struct folder *f, const char *name, const char *line, const char *why)
{
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, name, line, strlen(line), path);
	run_begin(&r, f, "bytes", name);
	r.options.record.chat = CHAT_CHATML;
	unlink(r.path);
	assert_int_equal(tokenize(&r.options, r.path, &r.info, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, why);
	CHECK_CONTAINS(err.text, name);
	assert_int_equal(access(r.path, F_OK), -1);
	run_end(&r);
}

static void unwritable_outputs_are_refused_by_name(void **state)
{
	static const char *const cases[][2] = {
	    {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"critic\", \"content\": \"b\"}]}",
	     "message 1 is of \"critic\""},
	    {"{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}", "message 0 is of \"tool\""},
	    {"{\"conversations\": [{\"from\": \"observation\", \"value\": \"a\"}]}", "message 0 is of \"observation\""},
	    {"{\"conversations\": [{\"from\": \"human\", \"content\": \"a\"}]}", "message 0 has not both a \"from\" and a \"value\""},
	    {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": "
	     "[{}]}]}",
	     "message 1 has \"tool_calls\""},
	    {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\", \"weight\": 0}]}", "message 0 has \"weight\""},
	    {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"url\": \"x\"}]}]}",
	     "a part of type \"image_url\""},
	    {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\", \"train\": false}]}", "message 0 has \"train\""},
	    {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\", \"reasoning_content\": \"c\"}]}",
	     "message 0 has \"reasoning_content\""},
	    {"{\"messages\": [{\"role\": \"user\", \"content\": [\"a\"]}]}", "message 0 has a part without a \"type\""},
	    {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}], \"images\": [\"c.png\"]}", "it has \"images\""},
	    {"{\"conversations\": [], \"chosen\": {\"value\": \"a\"}, \"rejected\": {\"value\": \"b\"}}", "it has \"chosen\""},
	    {"{\"messages\": [], \"tools\": [{\"name\": \"f\"}]}", "it has \"tools\""},
	    {"{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"c\", \"d\"]]}", "it has \"history\""},
	    {"{\"system\": 3, \"instruction\": \"a\", \"output\": \"b\"}", "its \"system\" is no text"},
	    {"{\"instruction\": \"a\"}", "not both an \"instruction\" and an \"output\""},
	    {"{\"instruction\": \"a\", \"input\": 3, \"output\": \"b\"}", "its \"input\" is no text"},
	    {"{\"instruction\": \"a\", \"input\": 1, \"output\": \"b\"}", "its \"input\" is no text"},
	    {"{\"instruction\": \"a\", \"input\": true, \"output\": \"b\"}", "its \"input\" is no text"},
	    {"{\"system\": 1, \"instruction\": \"a\", \"output\": \"b\"}", "its \"system\" is no text"},
	    {"{\"chosen\": \"a\", \"rejected\": \"b\"}", "nor a list \"messages\" or \"conversations\""},
	    {"not JSON", "1 bad line, the first at"},
	    {"\n \n", "there is no text in"},
	    {"", "there is no text in"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_nothing(*state, "bad.jsonl", cases[i][0], cases[i][1]);
	expect_nothing(*state, "array.txt", " [{\"text\": \"a\"}]", "begins as a JSON array of records");
	expect_nothing(*state, "empty.txt", "", "there is no text in");
}

/* "four." is one word with the text before it, and merges cross the boundary: the token across
 * counts. */
static void a_token_of_both_counts(void **state)
{
	const struct folder *f = *state;
	static const char line[] = "{\"prompt\": \"th\", \"completion\": \"e\"}";
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "across.jsonl", line, sizeof line - 1, path);
	run_begin(&r, f, "gpt2", "across.jsonl");
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	expect_text(&r, 0, "the<|endoftext|>", "the<|endoftext|>");
	run_end(&r);
}

static void bad_lines_are_counted_and_named(void **state)
{
	const struct folder *f = *state;
	static const char lines[] = "{\"text\": \"good\"}\n"
	                            "{\"text\": 7}\n"
	                            "{\"text\": \"not closed}\n"
	                            "{\"messages\": [{\"role\": \"user\"}]}\n"
	                            "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"
	                            "[]\n"
	                            "{\"text\": \"good \xff too\"}\n"
	                            "{\"text\": \"good\", \"text\": \"twice\"}\n";
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "bad.jsonl", lines, sizeof lines - 1, path);
	run_begin(&r, f, "llama3", "bad.jsonl");
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	assert_true(r.info.documents == 1 && r.info.bad_records == 7 && r.info.replaced == 0);
	r.options.replace = true;
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	assert_true(r.info.documents == 2 && r.info.bad_records == 6 && r.info.replaced == 1);
	expect_text(&r, 1, "<|begin_of_text|>good \xef\xbf\xbd too<|end_of_text|>",
	            "<|begin_of_text|>good \xef\xbf\xbd too<|end_of_text|>");
	r.options.bad_lines_max = 5;
	assert_int_equal(tokenize(&r.options, r.path, &r.info, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "more than 5 bad lines, the first at ");
	CHECK_CONTAINS(err.text, "bad.jsonl:2: neither \"text\"");
	run_end(&r);
}

static void invalid_utf8_is_named_by_file_and_byte_or_replaced(void **state)
{
	const struct folder *f = *state;
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "latin.txt", "na\xefve caf\xe9", 10, path);
	run_begin(&r, f, "llama3", "latin.txt");
	assert_int_equal(tokenize(&r.options, r.path, &r.info, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "latin.txt: invalid UTF-8 at byte 2 of the file");
	r.options.replace = true;
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	assert_int_equal(r.info.replaced, 2);
	expect_text(&r, 0, "<|begin_of_text|>na\xef\xbf\xbdve caf\xef\xbf\xbd<|end_of_text|>",
	            "<|begin_of_text|>na\xef\xbf\xbdve caf\xef\xbf\xbd<|end_of_text|>");
	run_end(&r);
	run_begin(&r, f, "bytes", "latin.txt");
	CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
	assert_true(r.info.tokens == 10 && r.info.replaced == 0 && r.info.vocabulary == 256);
	run_end(&r);
}

/* Several files with a few megabytes of lines. */
static void make_files(const struct folder *f)
{
	struct prng p;
	prng_seed(&p, 11);
	for (int k = 0; k < 4; k++) {
		char name[32], path[256], *text = malloc(2 << 20);
		size_t n = 0;
		while (n < (1300u << 10) + 1000u * (unsigned)k) {
			const uint64_t kind = prng_below(&p, 20);
			n += (size_t)sprintf(text + n,
			                     kind == 0   ? "{\"bad\": %llu}\n"
			                     : kind == 1 ? "{\"prompt\": \"%llu\", \"completion\": \"is a number\"}\n"
			                                 : "{\"text\": \"%llu ",
			                     (unsigned long long)prng_below(&p, 100000));
			for (uint64_t w = kind < 2 ? 0 : 1 + prng_below(&p, 60); w > 0; w--)
				n += (size_t)sprintf(text + n, "word%llu %s", (unsigned long long)prng_below(&p, 500), w == 1 ? "\"}\n" : "");
		}
		snprintf(name, sizeof name, "many-%d.jsonl%s", k, k == 1 ? ".gz" : k == 2 ? ".lz4" : "");
		write_compressed(f, name, k == 1 ? TEXT_GZIP : k == 2 ? TEXT_LZ4 : TEXT_PLAIN, text, n, path);
		free(text);
	}
}

static void any_number_of_threads_writes_the_same(void **state)
{
	const struct folder *f = *state;
	char *first = NULL;
	size_t first_size = 0;
	weir_error err = {0};
	struct run r;
	make_files(f);
	run_begin(&r, f, "gpt2", "many-*");
	r.options.bad_lines_max = UINT64_MAX;
	for (uint32_t threads = 1; threads <= 5; threads += 2) {
		char *bytes;
		size_t size;
		r.options.threads = threads;
		CHECK_OK(tokenize(&r.options, r.path, &r.info, &err), err);
		assert_true(r.info.documents > 8000 && r.info.bad_records > 300 && r.info.masked);
		CHECK_OK(disk_read_file(disk_system(), r.path, 64 << 20, &bytes, &size, &err), err);
		if (first == NULL) {
			first = bytes;
			first_size = size;
			continue;
		}
		assert_int_equal(size, first_size);
		assert_memory_equal(bytes, first, size);
		free(bytes);
	}
	free(first);
	char wanted[WEIR_ERROR_TEXT_BYTES] = "";
	r.options.bad_lines_max = 100;
	for (r.options.threads = 1; r.options.threads <= 5; r.options.threads += 2) {
		assert_int_equal(tokenize(&r.options, r.path, &r.info, &err), WEIR_E_LIMIT);
		if (!wanted[0])
			strcpy(wanted, err.text);
		assert_string_equal(err.text, wanted);
	}
	run_end(&r);
}

static void a_line_too_long_and_a_folder_that_is_not_there(void **state)
{
	const struct folder *f = *state;
	char path[256];
	struct run r;
	weir_error err = {0};
	write_bytes(f, "one.txt", "x", 1, path);
	run_begin(&r, f, "bytes", "one.txt");
	assert_int_equal(tokenize(&r.options, "/nowhere/out.bin", &r.info, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "/nowhere/out.bin");
	unlink(path);
	assert_int_equal(tokenize(&r.options, r.path, &r.info, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "one.txt");
	run_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_documents_that_end),
	                                   cmocka_unit_test(prompts_and_questions_do_not_count),
	                                   cmocka_unit_test(conversations_come_in_several_forms),
	                                   cmocka_unit_test(alpaca_is_written_as_it_was_published),
	                                   cmocka_unit_test(unwritable_outputs_are_refused_by_name),
	                                   cmocka_unit_test(a_token_of_both_counts),
	                                   cmocka_unit_test(bad_lines_are_counted_and_named),
	                                   cmocka_unit_test(invalid_utf8_is_named_by_file_and_byte_or_replaced),
	                                   cmocka_unit_test(any_number_of_threads_writes_the_same),
	                                   cmocka_unit_test(a_line_too_long_and_a_folder_that_is_not_there)};
	return cmocka_run_group_tests_name("data_tokenize", tests, folder_setup, folder_teardown);
}
