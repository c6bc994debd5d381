/* Handmade tokenizers: ids and texts, places of marks, a folder's files, and refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka_check.h"

#include "common/system/disk.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/tokenizer/utf8.h"

/* A model of characters and bytes, with parts to fill in. */
#define MODEL                                                                                                                   \
	"\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"fuse_unk\":true,\"vocab\":{\"<unk>\":0,\"<s>" \
	"\":1,\"</s>\":2,"                                                                                                          \
	"\"<0xC3>\":3,\"<0xA9>\":4,\"\xe2\x96\x81\":5,\"a\":6,\"b\":7,\"ab\":8,\"\xe2\x96\x81"                                      \
	"a\":9,\"\xe2\x96\x81"                                                                                                      \
	"ab\":10,\"c\":11,\" \":12,\"<\":13,\"x\":14,\"bc\":15},\"merges\":[\"a b\",[\"\xe2\x96\x81\",\"ab\"],\"\xe2\x96\x81 "      \
	"a\",\"b c\"]}"
#define SPECIAL(id, content, options) "{\"id\":" #id ",\"content\":\"" content "\",\"special\":true" options "}"
#define ADDED                                                                                                      \
	"\"added_tokens\":[" SPECIAL(0, "<unk>", "") "," SPECIAL(1, "<s>", "") "," SPECIAL(2, "</s>", "") "," SPECIAL( \
	    20, "<x>", ",\"rstrip\":true") "]"
#define LLAMA                                                                                                               \
	"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":" \
	"\"Replace\",\"pattern\":"                                                                                              \
	"{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},"                                                                   \
	"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},"     \
	"\"content\":\" \"},{\"type\":"                                                                                         \
	"\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"                \
	"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{"   \
	"\"Sequence\":{\"id\":\"A\","                                                                                           \
	"\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}},"

static struct tokenizer *parsed(const char *json)
{
	struct tokenizer *t;
	weir_error err = {0};
	CHECK_OK(tokenizer_parse(&t, json, strlen(json), "test.json", &err), err);
	return t;
}

/* "1 2 3" */
static void expect_ids(const struct tokenizer *t, const char *text, bool affixes, const char *wanted)
{
	struct encoder *e;
	struct token_list ids = {0};
	char out[512] = "";
	weir_error err = {0};
	CHECK_OK(encoder_create(&e, t, &err), err);
	for (int again = 0; again < 2; again++) { /* the second time, words come from a cache */
		ids.count = 0;
		CHECK_OK(encoder_run(e, text, strlen(text), &(struct encoding){.affixes = affixes}, &ids, &err), err);
		out[0] = 0;
		for (size_t i = 0; i < ids.count; i++)
			snprintf(out + strlen(out), sizeof out - strlen(out), "%s%u", i > 0 ? " " : "", ids.ids[i]);
		assert_string_equal(out, wanted);
	}
	free(ids.ids);
	encoder_destroy(e);
}

static void ids_are_those_of_the_merges(void **state)
{
	(void)state;
	struct tokenizer *t = parsed("{" ADDED "," LLAMA MODEL "}");
	expect_ids(t, "ab", true, "1 10");
	expect_ids(t, "ab", false, "10");
	expect_ids(t, "abc a", false, "10 11 9");
	expect_ids(t, "\xc3\xa9", false, "5 3 4"); /* its bytes have tokens */
	/* consecutive unknown characters become one token */
	expect_ids(t, "zz\xe6\x97\xa5", false, "5 0");
	/* the token includes the white space behind it */
	expect_ids(t, "a<x>  \n b", false, "9 16 5 7");
	expect_ids(t, "</s><s", false, "2 5 13 0");
	expect_ids(t, "", true, "1");
	assert_int_equal(tokenizer_get_info(t)->vocabulary, 17);
	assert_int_equal(tokenizer_get_info(t)->bos, 1);
	assert_int_equal(tokenizer_get_info(t)->eos, 2);
	assert_int_equal(tokenizer_id(t, "<x>", 3), 16); /* the next id, whatever the file says */
	assert_int_equal(tokenizer_id(t, "ab", 2), 8);
	assert_int_equal(tokenizer_id(t, "zz", 2), TOKEN_NONE);
	tokenizer_close(t);
}

static void expect_text(struct decoder *d, const uint32_t *ids, size_t count, const char *wanted)
{
	char out[256] = "";
	size_t n = 0;
	decoder_restart(d);
	for (size_t i = 0; i < count; i++) {
		size_t bytes;
		const char *text = decoder_next(d, ids[i], &bytes);
		memcpy(out + n, text, bytes);
		n += bytes;
	}
	out[n] = 0;
	assert_string_equal(out, wanted);
}

static void texts_come_back_token_by_token(void **state)
{
	(void)state;
	struct tokenizer *t = parsed("{" ADDED "," LLAMA MODEL "}");
	struct decoder *d, *plain;
	weir_error err = {0};
	CHECK_OK(decoder_create(&d, t, true, &err), err);
	CHECK_OK(decoder_create(&plain, t, false, &err), err);
	static const uint32_t ids[] = {1, 10, 5, 3, 4, 9, 2, 19, 4000000000u};
	expect_text(d, ids, 9, "ab \xc3\xa9 a");
	expect_text(plain, ids, 9, "<s> ab \xc3\xa9 a</s>");
	expect_text(d, ids + 1, 2, "ab ");
	size_t bytes;
	decoder_restart(d);
	const char *half = decoder_next(d, 3, &bytes);
	assert_true(bytes == 1 && utf8_begins(half, 1));
	decoder_destroy(d);
	decoder_destroy(plain);
	tokenizer_close(t);
}

static void bytes_are_tokens_without_a_file(void **state)
{
	(void)state;
	struct tokenizer *t;
	struct encoder *e;
	struct decoder *d;
	struct token_list ids = {0};
	struct text_mark marks[] = {{.at = 0}, {.at = 2}, {.at = 9}};
	weir_error err = {0};
	CHECK_OK(tokenizer_open(&t, "bytes", &err), err);
	CHECK_OK(encoder_create(&e, t, &err), err);
	CHECK_OK(encoder_run(e, "a\xff\0z", 4, &(struct encoding){.affixes = true, .marks = marks, .marks_count = 3}, &ids, &err),
	         err);
	assert_int_equal(ids.count, 4);
	assert_true(ids.ids[0] == 'a' && ids.ids[1] == 0xff && ids.ids[2] == 0 && ids.ids[3] == 'z');
	assert_true(marks[0].token == 0 && marks[1].token == 2 && marks[2].token == 4);
	CHECK_OK(decoder_create(&d, t, true, &err), err);
	expect_text(d, (const uint32_t[]){'h', 'i', 256, 300}, 4, "hi");
	assert_int_equal(tokenizer_get_info(t)->vocabulary, 256);
	assert_int_equal(tokenizer_get_info(t)->eos, TOKEN_NONE);
	free(ids.ids);
	decoder_destroy(d);
	encoder_destroy(e);
	tokenizer_close(t);
}

/* Marks where a token crosses them, beside an added token, inside one, and at both ends. */
static void marks_fall_before_the_first_token_that_is_not_of_what_stands_before(void **state)
{
	(void)state;
	struct tokenizer *t = parsed("{" ADDED "," LLAMA MODEL "}");
	struct encoder *e;
	struct token_list ids = {0};
	weir_error err = {0};
	static const char text[] = "ab ab<x>c ab"; /* <s> _ab _ab <x> _ c _ab */
	static const size_t wanted[sizeof text] = {1, 1, 2, 2, 2, 3, 4, 4, 4, 6, 6, 6, 7};
	CHECK_OK(encoder_create(&e, t, &err), err);
	for (size_t at = 0; at < sizeof text; at++) {
		struct text_mark marks[] = {{.at = at}, {.at = sizeof text - 1}};
		ids.count = 0;
		CHECK_OK(encoder_run(e, text, sizeof text - 1, &(struct encoding){.affixes = true, .marks = marks, .marks_count = 2},
		                     &ids, &err),
		         err);
		assert_int_equal(ids.count, 7);
		if (marks[0].token != wanted[at])
			fail_msg("byte %zu: token %zu, expected %zu", at, marks[0].token, wanted[at]);
		assert_int_equal(marks[1].token, 7);
	}
	free(ids.ids);
	encoder_destroy(e);
	tokenizer_close(t);
}

static void expect_failure(const struct tokenizer *t, const char *text, size_t bytes, weir_status status, const char *says)
{
	struct encoder *e;
	struct token_list ids = {0};
	weir_error err = {0};
	CHECK_OK(encoder_create(&e, t, &err), err);
	assert_int_equal(encoder_run(e, text, bytes, &(struct encoding){0}, &ids, &err), status);
	CHECK_CONTAINS(err.text, says);
	free(ids.ids);
	encoder_destroy(e);
}

static void texts_that_cannot_be_encoded_are_refused(void **state)
{
	(void)state;
	struct tokenizer *t = parsed("{" ADDED "," LLAMA MODEL "}");
	expect_failure(t, "ab\xff", 3, WEIR_E_INVALID, "invalid UTF-8 at byte 2");
	expect_failure(t, "a", TOKENIZER_TEXT_BYTES_MAX + 1ull, WEIR_E_LIMIT, "at most 268435456");
	tokenizer_close(t);
	t = parsed("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"a\":0},\"merges\":[]}}");
	expect_ids(t, "aa", true, "0 0");
	expect_failure(t, "ab", 2, WEIR_E_INVALID, "the character 'b' has no token, nor has the tokenizer's unk_token '?'");
	tokenizer_close(t);
	t = parsed("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":"
	           "\"a\"},\"content\":"
	           "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}}");
	char *many = malloc(8 << 20);
	memset(many, 'a', 8 << 20);
	expect_failure(t, many, 8 << 20, WEIR_E_LIMIT, "more than 268435456 bytes");
	free(many);
	tokenizer_close(t);
	/* without a pre-tokenizer, a text is one word */
	t = parsed("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}");
	many = malloc(BPE_WORD_BYTES_MAX + 1);
	memset(many, 'a', BPE_WORD_BYTES_MAX + 1);
	expect_failure(t, many, BPE_WORD_BYTES_MAX + 1, WEIR_E_LIMIT,
	               "a word of 33554433 bytes, which the tokenizer does not cut; at most 33554432");
	free(many);
	tokenizer_close(t);
}

/* Each with its error. */
static void files_that_are_wrong_or_not_supported_are_refused_by_name(void **state)
{
	(void)state;
#define SMALL      "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"
#define WITH(part) "{" part "," SMALL "}"
	static const struct {
		const char *json;
		weir_status status;
		const char *says;
	} cases[] = {
	    {"", WEIR_E_PARSE, "test.json:1:0"},
	    {"[]", WEIR_E_INVALID, "test.json: model: it is missing"},
	    {"{\"model\":{\"type\":\"Unigram\"}}", WEIR_E_UNSUPPORTED, "its type is Unigram"},
	    {"{\"model\":{\"vocab\":[],\"merges\":[]}}", WEIR_E_INVALID, "\"vocab\" is missing"},
	    {"{\"model\":{\"vocab\":{},\"merges\":[]}}", WEIR_E_INVALID, "it has no tokens"},
	    {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", WEIR_E_INVALID, "the id of the token 'a'"},
	    {"{\"model\":{\"vocab\":{\"a\":4194304},\"merges\":[]}}", WEIR_E_LIMIT, "ids are to be below 4194304"},
	    {"{\"model\":{\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}}", WEIR_E_INVALID, "the id 1 is that of two tokens"},
	    {"{\"model\":{\"vocab\":{\"a\":1}}}", WEIR_E_INVALID, "\"merges\" is missing"},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a\"]}}", WEIR_E_INVALID, "merge 0 is neither"},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a a a\"]}}", WEIR_E_INVALID, "merge 0 is neither"},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[[\"a\"]]}}", WEIR_E_INVALID, "merge 0 is neither"},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a b\"]}}", WEIR_E_INVALID, "its right part 'b' is not in the vocabulary"},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a a\"]}}", WEIR_E_INVALID, "its result 'aa' is not in the vocabulary"},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"dropout\":0.1}}", WEIR_E_UNSUPPORTED, "\"dropout\""},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"dropout\":-0.1}}", WEIR_E_UNSUPPORTED, "\"dropout\""},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"dropout\":\"0.0\"}}", WEIR_E_UNSUPPORTED, "\"dropout\""},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"dropout\":false}}", WEIR_E_UNSUPPORTED, "\"dropout\""},
	    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}", WEIR_E_UNSUPPORTED,
	     "\"end_of_word_suffix\""},
	    {WITH("\"normalizer\":{\"type\":\"Lowercase\"}"), WEIR_E_UNSUPPORTED,
	     "test.json: normalizer: Lowercase is not supported"},
	    {WITH("\"normalizer\":{}"), WEIR_E_INVALID, "normalizer: \"type\" is missing"},
	    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"\"}"), WEIR_E_INVALID, "\"pattern\" is neither"},
	    {WITH("\"normalizer\":{\"type\":\"Prepend\"}"), WEIR_E_INVALID, "\"prepend\" is missing"},
	    {WITH("\"pre_tokenizer\":{\"type\":\"Whitespace\"}"), WEIR_E_UNSUPPORTED, "pre_tokenizer: Whitespace is not supported"},
	    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Here\"}"), WEIR_E_INVALID,
	     "\"behavior\""},
	    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\w\"},\"behavior\":\"Isolated\"}"),
	     WEIR_E_UNSUPPORTED, "'\\w'"},
	    {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), WEIR_E_INVALID,
	     "\"replacement\" is not one character"},
	    {WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}"),
	     WEIR_E_UNSUPPORTED, "something follows ByteLevel"},
	    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}"),
	     WEIR_E_INVALID, "piece 0"},
	    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}"), WEIR_E_INVALID, "the text is not in"},
	    {WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",9],\"sep\":[\"b\",1]}"), WEIR_E_INVALID,
	     "not below 3"},
	    {WITH("\"decoder\":{\"type\":\"CTC\"}"), WEIR_E_UNSUPPORTED, "decoder: CTC is not supported"},
	    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}]}"),
	     WEIR_E_UNSUPPORTED, "behind Fuse"},
	    {WITH("\"added_tokens\":[{\"id\":5,\"content\":\"z\"},{\"id\":6,\"content\":\"z\"}]"), WEIR_E_INVALID,
	     "'z' is there twice"},
	    {WITH("\"added_tokens\":[{\"id\":0,\"content\":\"a\"},{\"id\":0,\"content\":\"a\"}]"), WEIR_E_INVALID,
	     "'a' is there twice"},
	    {"{\"added_tokens\":[{\"id\":2,\"content\":\"y\"},{\"id\":3,\"content\":\"z\"}],\"model\":{\"vocab\":{\"a\":0,\"b\":3},"
	     "\"merges\":[]}}",
	     WEIR_E_INVALID, "added_tokens: 'z' would get the id 3, which in the vocabulary is another token's"},
	    {WITH("\"added_tokens\":7"), WEIR_E_INVALID, "it is no list"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tokenizer *t = NULL;
		weir_error err = {0};
		const weir_status status = tokenizer_parse(&t, cases[i].json, strlen(cases[i].json), "test.json", &err);
		if (status != cases[i].status)
			fail_msg("%s: %s, expected %s: %s", cases[i].json, weir_status_name(status), weir_status_name(cases[i].status),
			         err.text);
		CHECK_CONTAINS(err.text, cases[i].says);
		CHECK_CONTAINS(err.text, "test.json");
		assert_int_equal(tokenizer_parse(&t, cases[i].json, strlen(cases[i].json), "test.json", NULL), cases[i].status);
	}
}

static void nested_sequences_end_somewhere(void **state)
{
	(void)state;
	char json[8192] = "{\"normalizer\":";
	weir_error err = {0};
	struct tokenizer *t;
	for (int i = 0; i < 50; i++)
		strcat(json, "{\"type\":\"Sequence\",\"normalizers\":[");
	for (int i = 0; i < 50; i++)
		strcat(json, "]}");
	strcat(json, "," SMALL "}");
	assert_int_equal(tokenizer_parse(&t, json, strlen(json), "test.json", &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "more than 8 deep");
}

static void write_text(const char *folder, const char *name, const char *text)
{
	char path[256];
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s", folder, name);
	CHECK_OK(disk_write_file(disk_system(), path, text, strlen(text), &err), err);
}

static void remove_text(const char *folder, const char *name)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	unlink(path);
}

static void a_folder_says_what_ends_a_text_and_how_chats_are_written(void **state)
{
	(void)state;
	char folder[] = "/tmp/weir-tokenizer-XXXXXX";
	weir_error err = {0};
	struct tokenizer *t;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(tokenizer_open(&t, folder, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "tokenizer.json");
	write_text(folder, "tokenizer.json", "{" ADDED "," LLAMA MODEL "}");
	err = (weir_error){0};
	CHECK_OK(tokenizer_open(&t, folder, &err), err);
	assert_string_equal(err.text, ""); /* missing optional files are no error */
	assert_true(tokenizer_get_info(t)->eos == 2 && tokenizer_get_info(t)->chat_template == NULL);
	tokenizer_close(t);
	write_text(folder, "tokenizer_config.json",
	           "{\"model_max_length\":1000000000000000019884624838656,\"bos_token\":\"nowhere\",\"eos_token\":{\"content\":\"<x>"
	           "\"},\"chat_template\":[{\"name\":\"default\","
	           "\"template\":\"{{ a }}\"}]}");
	CHECK_OK(tokenizer_open(&t, folder, &err), err);
	const struct tokenizer_info *info = tokenizer_get_info(t);
	assert_int_equal(info->bos, 17); /* bos is an added token */
	assert_string_equal(info->bos_text, "nowhere");
	assert_int_equal(info->eos, 16);
	assert_string_equal(info->eos_text, "<x>");
	assert_string_equal(info->chat_template, "{{ a }}");
	tokenizer_close(t);
	write_text(folder, "chat_template.jinja", "{{ b }}");
	CHECK_OK(tokenizer_open(&t, folder, &err), err);
	assert_string_equal(tokenizer_get_info(t)->chat_template, "{{ b }}");
	tokenizer_close(t);
	write_text(folder, "tokenizer_config.json", "{");
	assert_int_equal(tokenizer_open(&t, folder, &err), WEIR_E_PARSE);
	CHECK_CONTAINS(err.text, "tokenizer_config.json:1");
	remove_text(folder, "chat_template.jinja");
	remove_text(folder, "tokenizer_config.json");
	remove_text(folder, "tokenizer.json");
	rmdir(folder);
}

/* Keys of tokenizer_config.json that change ids in transformers are refused by name. */
static void a_config_that_makes_other_ids_is_refused(void **state)
{
	(void)state;
#define CLASS(name, more) "{\"tokenizer_class\":\"" name "\"" more "}"
	static const char metaspace[] = "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},", no_space[] = "",
	                  bytes[] = "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},",
	                  prepend[] = "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"_\"},";
	static const struct {
		const char *part, *config, *says; /* says: NULL if accepted */
	} cases[] = {
	    {no_space, "{\"split_special_tokens\":true}", "tokenizer_config.json beside it: split_special_tokens is true"},
	    {no_space, "{\"split_special_tokens\":false}", NULL},
	    {bytes, CLASS("GPT2Tokenizer", ",\"add_prefix_space\":true"),
	     "add_prefix_space is true, and tokenizer.json puts no space"},
	    {bytes, CLASS("GPT2TokenizerFast", ",\"add_prefix_space\":false"), NULL},
	    /* has no effect there */
	    {bytes, CLASS("PreTrainedTokenizerFast", ",\"add_prefix_space\":true"), NULL},
	    {bytes, CLASS("LlamaTokenizer", ",\"add_prefix_space\":true"), NULL},
	    {metaspace, CLASS("LlamaTokenizer", ",\"add_prefix_space\":false"),
	     "add_prefix_space is false, and tokenizer.json puts a space"},
	    {prepend, CLASS("LlamaTokenizerFast", ",\"add_prefix_space\":false"), "add_prefix_space is false"},
	    {prepend, CLASS("LlamaTokenizerFast", ",\"add_prefix_space\":true"), NULL},
	    {prepend, CLASS("LlamaTokenizerFast", ",\"add_prefix_space\":null"), NULL},
	};
	char folder[] = "/tmp/weir-tokenizer-XXXXXX";
	assert_non_null(mkdtemp(folder));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char json[512];
		struct tokenizer *t = NULL;
		weir_error err = {0};
		snprintf(json, sizeof json, "{%s\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"_\":1}}}", cases[i].part);
		write_text(folder, "tokenizer.json", json);
		write_text(folder, "tokenizer_config.json", cases[i].config);
		const weir_status status = tokenizer_open(&t, folder, &err);
		if (cases[i].says == NULL) {
			CHECK_OK(status, err);
			tokenizer_close(t);
			continue;
		}
		assert_int_equal(status, WEIR_E_UNSUPPORTED);
		CHECK_CONTAINS(err.text, cases[i].says);
	}
	remove_text(folder, "tokenizer_config.json");
	remove_text(folder, "tokenizer.json");
	rmdir(folder);
}

/* White space that one token includes is not available to another. */
static void white_space_is_taken_once(void **state)
{
	(void)state;
	static const char json[] =
	    "{\"added_tokens\":[{\"id\":3,\"content\":\"  \",\"lstrip\":true,\"rstrip\":true},"
	    "{\"id\":4,\"content\":\"<x>\",\"rstrip\":true}],\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,"
	    "\" \":2}}}";
	struct tokenizer *t = parsed(json);
	expect_ids(t, "a      b", false, "0 3 1"); /* as tokenizers 0.23 */
	expect_ids(t, "a  b", false, "0 3 1");
	expect_ids(t, "a<x>    b", false, "0 4 1");
	expect_ids(t, "a<x> b  ", false, "0 4 1 3");
	tokenizer_close(t);
}

/* As transformers: a token's flags in tokenizer_config.json override those of tokenizer.json. */
static void a_folder_s_config_changes_tokens_as_transformers_does(void **state)
{
	(void)state;
#define CONFIG(more) "{\"added_tokens_decoder\":{\"6\":{\"content\":\"<x>\",\"special\":true" more "}}}"
	static const struct {
		const char *own, *config, *text, *ids;
	} cases[] = {
	    {"", "{}", "a <x> b", "0 2 6 2 1"},
	    {"", CONFIG(""), "a <x> b", "0 2 6 2 1"},
	    {"", CONFIG(",\"lstrip\":true"), "a <x> b", "0 6 2 1"},
	    {",\"lstrip\":true", "{}", "a <x> b", "0 6 2 1"},
	    {",\"lstrip\":true", CONFIG(""), "a <x> b", "0 2 6 2 1"},
	    {"", CONFIG(",\"single_word\":true"), "a<x>b", "0 3 4 5 1"},
	    {",\"rstrip\":true", CONFIG(",\"rstrip\":false"), "a <x> b", "0 2 6 2 1"},
	    /* a role changes nothing */
	    {"", "{\"eos_token\":{\"content\":\"<x>\",\"lstrip\":true}}", "a <x> b", "0 2 6 2 1"},
	};
	uint8_t plain[16];
	char folder[] = "/tmp/weir-tokenizer-XXXXXX";
	assert_non_null(mkdtemp(folder));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char json[512];
		struct tokenizer *t;
		weir_error err = {0};
		snprintf(json, sizeof json,
		         "{\"added_tokens\":[{\"id\":6,\"content\":\"<x>\",\"special\":true%s}],\"model\":{\"merges\":[],\"vocab\":{"
		         "\"a\":0,\"b\":1,"
		         "\" \":2,\"<\":3,\"x\":4,\">\":5}}}",
		         cases[i].own);
		write_text(folder, "tokenizer.json", json);
		write_text(folder, "tokenizer_config.json", cases[i].config);
		CHECK_OK(tokenizer_open(&t, folder, &err), err);
		expect_ids(t, cases[i].text, false, cases[i].ids);
		if (i == 0)
			memcpy(plain, tokenizer_get_info(t)->fingerprint, 16);
		if (i == 1) /* equal flags change nothing */
			assert_memory_equal(plain, tokenizer_get_info(t)->fingerprint, 16);
		if (i == 2)
			assert_memory_not_equal(plain, tokenizer_get_info(t)->fingerprint, 16);
		tokenizer_close(t);
	}
	remove_text(folder, "tokenizer_config.json");
	remove_text(folder, "tokenizer.json");
	rmdir(folder);
#undef CONFIG
}

static void no_dropout_is_none_however_it_is_written(void **state)
{
	(void)state;
	static const char *const ways[] = {"0", "0.0", "-0.0", "0e3", "null"};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		char json[128];
		snprintf(json, sizeof json, "{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[],\"dropout\":%s}}", ways[i]);
		struct tokenizer *t = parsed(json);
		expect_ids(t, "ab", false, "0 1");
		tokenizer_close(t);
	}
}

/* As tokenizers 0.23.3: it ignores the ids in the file. */
static void added_tokens_have_the_ids_that_tokenizers_gives_them(void **state)
{
	(void)state;
#define ADD(x, y)                                                       \
	"\"added_tokens\":[{\"id\":" #x ",\"content\":\"<x>\"},{\"id\":" #y \
	",\"content\":\"<y>\"}],\"model\":{\"merges\":[],\"vocab\":"
	static const struct {
		const char *json, *ids;
	} cases[] = {
	    {"{" ADD(2, 3) "{\"a\":0,\"b\":1}}}", "0 2 1 3"},
	    {"{" ADD(5, 7) "{\"a\":0,\"b\":1}}}", "0 2 1 3"},
	    {"{" ADD(3, 2) "{\"a\":0,\"b\":1}}}", "0 2 1 3"}, /* order of the file */
	    {"{" ADD(1, 2) "{\"a\":0,\"b\":1}}}", "0 2 1 3"}, /* the id of another token */
	    /* the text is in the vocabulary */
	    {"{" ADD(5, 3) "{\"a\":0,\"b\":1,\"<x>\":2}}}", "0 2 1 3"},
	    /* next after the number of tokens */
	    {"{" ADD(5, 6) "{\"a\":0,\"b\":4}}}", "0 2 4 3"},
	    {"{" ADD(9, 3) "{\"a\":0,\"b\":4,\"<x>\":9}}}", "0 9 4 3"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tokenizer *t = parsed(cases[i].json);
		expect_ids(t, "a<x>b<y>", false, cases[i].ids);
		tokenizer_close(t);
	}
	struct tokenizer *as_said = parsed(cases[0].json), *moved = parsed(cases[1].json);
	assert_memory_not_equal(tokenizer_get_info(as_said)->fingerprint, tokenizer_get_info(moved)->fingerprint, 16);
	tokenizer_close(as_said);
	tokenizer_close(moved);
#undef ADD
}

/* As AutoTokenizer of transformers 5.24 (class PreTrainedTokenizerFast) does for the same
 * folders. */
static void a_folder_s_other_files_add_tokens_as_transformers_does(void **state)
{
	(void)state;
#define Y(id) "\"added_tokens_decoder\":{\"2\":{\"content\":\"<x>\"},\"" id "\":{\"content\":\"<y>\",\"special\":true}}"
	static const struct {
		const char *config, *map, *added, *ids;
		uint32_t vocabulary, bos, eos;
	} cases[] = {
	    {"{}", NULL, NULL, "0 2 1 3 4 5", 6, TOKEN_NONE, TOKEN_NONE}, /* <y> becomes three tokens */
	    {"{\"eos_token\":\"<y>\"}", NULL, NULL, "0 2 1 6", 7, TOKEN_NONE, 6},
	    {"{\"eos_token\":{\"content\":\"<y>\",\"__type\":\"AddedToken\"},\"bos_token\":\"<x>\"}", NULL, NULL, "0 2 1 6", 7, 2, 6},
	    {"{" Y("6") "}", NULL, NULL, "0 2 1 6", 7, TOKEN_NONE, TOKEN_NONE},
	    {"{" Y("9") "}", NULL, NULL, "0 2 1 6", 7, TOKEN_NONE, TOKEN_NONE},
	    {"{" Y("1") "}", NULL, NULL, "0 2 1 6", 7, TOKEN_NONE, TOKEN_NONE},
	    {"{\"pad_token\":\"<y>\",\"eos_token\":\"<e>\",\"unk_token\":\"<u>\"}", NULL, NULL, "0 2 1 8", 9, TOKEN_NONE, 6},
	    {"{\"additional_special_tokens\":[\"<y>\"]}", NULL, NULL, "0 2 1 6", 7, TOKEN_NONE, TOKEN_NONE},
	    {NULL, "{\"eos_token\":\"<y>\"}", NULL, "0 2 1 6", 7, TOKEN_NONE, 6},
	    {"{\"eos_token\":\"<x>\"}", "{\"eos_token\":\"<y>\"}", NULL, "0 2 1 6", 7, TOKEN_NONE, 6},
	    {"{\"eos_token\":\"<x>\",\"added_tokens_decoder\":{}}", "{\"eos_token\":\"<y>\"}", NULL, "0 2 1 3 4 5", 6, TOKEN_NONE, 2},
	    {"{}", NULL, "{\"<y>\":7}", "0 2 1 6", 7, TOKEN_NONE, TOKEN_NONE},
	    {"{" Y("6") "}", NULL, "{\"<z>\":7}", "0 2 1 6", 7, TOKEN_NONE, TOKEN_NONE},
	};
	static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};
	char folder[] = "/tmp/weir-tokenizer-XXXXXX";
	assert_non_null(mkdtemp(folder));
	write_text(
	    folder, "tokenizer.json",
	    "{\"added_tokens\":[{\"id\":2,\"content\":\"<x>\",\"special\":true}],\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,"
	    "\"<x>\":2,\"<\":3,\"y\":4,\">\":5}}}");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *const texts[] = {cases[i].config, cases[i].map, cases[i].added};
		struct tokenizer *t;
		weir_error err = {0};
		for (size_t k = 0; k < 3; k++)
			if (texts[k] != NULL)
				write_text(folder, names[k], texts[k]);
		CHECK_OK(tokenizer_open(&t, folder, &err), err);
		expect_ids(t, "a<x>b<y>", false, cases[i].ids);
		const struct tokenizer_info *info = tokenizer_get_info(t);
		if (info->vocabulary != cases[i].vocabulary || info->bos != cases[i].bos || info->eos != cases[i].eos)
			fail_msg("case %zu: %u tokens, bos %u, eos %u", i, info->vocabulary, info->bos, info->eos);
		tokenizer_close(t);
		for (size_t k = 0; k < 3; k++)
			remove_text(folder, names[k]);
	}
	remove_text(folder, "tokenizer.json");
	rmdir(folder);
#undef Y
}

static void fingerprints_tell_files_apart(void **state)
{
	(void)state;
	struct tokenizer *a = parsed(WITH("\"x\":1")), *b = parsed(WITH("\"x\":2")), *c = parsed(WITH("\"x\":1"));
	assert_memory_not_equal(tokenizer_get_info(a)->fingerprint, tokenizer_get_info(b)->fingerprint, 16);
	assert_memory_equal(tokenizer_get_info(a)->fingerprint, tokenizer_get_info(c)->fingerprint, 16);
	tokenizer_close(a);
	tokenizer_close(b);
	tokenizer_close(c);
}

/* Merges with equal results and stale heap entries: the expected ids are computed by hand. */
static void least_rank_first_and_leftmost_of_equals(void **state)
{
	(void)state;
	struct tokenizer *t = parsed(
	    "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"aa\":2,\"ab\":3,\"aab\":4,\"aaa\":5},\"merges\":[\"a a\",\"aa b\",\"a b\"]}}");
	expect_ids(t, "aaab", true, "2 3");
	expect_ids(t, "aaaab", true, "2 4");
	expect_ids(t, "baab", true, "1 4");
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ids_are_those_of_the_merges),
	                                   cmocka_unit_test(texts_come_back_token_by_token),
	                                   cmocka_unit_test(bytes_are_tokens_without_a_file),
	                                   cmocka_unit_test(marks_fall_before_the_first_token_that_is_not_of_what_stands_before),
	                                   cmocka_unit_test(texts_that_cannot_be_encoded_are_refused),
	                                   cmocka_unit_test(files_that_are_wrong_or_not_supported_are_refused_by_name),
	                                   cmocka_unit_test(nested_sequences_end_somewhere),
	                                   cmocka_unit_test(a_folder_says_what_ends_a_text_and_how_chats_are_written),
	                                   cmocka_unit_test(no_dropout_is_none_however_it_is_written),
	                                   cmocka_unit_test(added_tokens_have_the_ids_that_tokenizers_gives_them),
	                                   cmocka_unit_test(a_folder_s_other_files_add_tokens_as_transformers_does),
	                                   cmocka_unit_test(a_folder_s_config_changes_tokens_as_transformers_does),
	                                   cmocka_unit_test(a_config_that_makes_other_ids_is_refused),
	                                   cmocka_unit_test(white_space_is_taken_once),
	                                   cmocka_unit_test(fingerprints_tell_files_apart),
	                                   cmocka_unit_test(least_rank_first_and_leftmost_of_equals)};
	return cmocka_run_group_tests_name("tokenizer_tokenizer", tests, NULL, NULL);
}
