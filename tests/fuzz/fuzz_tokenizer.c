/* A damaged tokenizer.json: refused with a sentence, or a tokenizer. Its ids are below its
 * vocabulary, equal with and without marks, and decode to something.
 *
 * Input: the file. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/tokenizer.h"

static const char *const texts[] = {
    "",
    " ",
    "a",
    "abab aab ba  ab\n",
    "it's 12,345 o'clock <s>\xc3\xa9\xe6\x97\xa5</s> <x>  -- ~",
    "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xa5\xcc\x81\t\r\n",
};

static void encode(const struct tokenizer *t, struct encoder *e, struct decoder *d, const char *text)
{
	const size_t bytes = strlen(text);
	struct token_list ids = {0}, again = {0};
	struct text_mark marks[] = {{.at = 0}, {.at = bytes / 2}, {.at = bytes}};
	weir_error err = {0};
	const weir_status status = encoder_run(e, text, bytes, &(struct encoding){.affixes = true}, &ids, &err);
	assert(status == WEIR_OK || err.text[0]);
	if (status == WEIR_OK && encoder_run(e, text, bytes, &(struct encoding){.affixes = true, .marks = marks, .marks_count = 3},
	                                     &again, &err) == WEIR_OK) {
		assert(ids.count == again.count);
		assert(ids.count == 0 || memcmp(ids.ids, again.ids, ids.count * sizeof *ids.ids) == 0);
		assert(marks[0].token <= marks[2].token && marks[1].token <= ids.count && marks[2].token <= ids.count);
		decoder_restart(d);
		for (size_t i = 0; i < ids.count; i++) {
			size_t more;
			volatile char last = 0;
			const char *made = decoder_next(d, ids.ids[i], &more);
			assert(ids.ids[i] < tokenizer_get_info(t)->vocabulary);
			for (size_t k = 0; k < more; k++)
				last = made[k];
			(void)last;
		}
	}
	free(ids.ids);
	free(again.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tokenizer *t;
	struct encoder *e;
	struct decoder *d;
	weir_error err = {0};
	if (tokenizer_parse(&t, (const char *)data, size, "tokenizer.json", &err) != WEIR_OK) {
		assert(err.text[0]);
		return 0;
	}
	if (encoder_create(&e, t, &err) == WEIR_OK) {
		if (decoder_create(&d, t, false, &err) == WEIR_OK) {
			for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
				encode(t, e, d, texts[i]);
			decoder_destroy(d);
		}
		encoder_destroy(e);
	}
	tokenizer_close(t);
	return 0;
}

#define BYTE_MODEL                                                                                                     \
	"\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"\xc4\xa0" \
	"ab\":4,\"1\":5,\"<s>\":6,\"\xc4\x8a\":7},\"merges\":[\"a b\",[\"\xc4\xa0\",\"ab\"]]}"
#define CHARACTER_MODEL                                                                                                         \
	"\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"fuse_unk\":true,\"vocab\":{\"<unk>\":0,\"<s>" \
	"\":1,\"</s>\":2,"                                                                                                          \
	"\"<0xC3>\":3,\"<0xA9>\":4,\"\xe2\x96\x81\":5,\"a\":6,\"b\":7,\"ab\":8,\"\xe2\x96\x81"                                      \
	"a\":9},\"merges\":[\"a b\",\"\xe2\x96\x81 a\"]}"
#define ADDED                                                                                                          \
	"\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":9,\"content\":\"<x>\",\"lstrip\":true," \
	"\"rstrip\":true},{\"id\":10,"                                                                                     \
	"\"content\":\"o'clock\",\"single_word\":true,\"normalized\":true}]"

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const char *const seeds[] = {
	    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},\"decoder\":{\"type\":\"ByteLevel\"},\"post_"
	    "processor\":{\"type\":\"ByteLevel\"}," BYTE_MODEL "}",
	    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t)|[^"
	    "\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
	    "\\\\p{N}{1,3}| "
	    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
	    "\"Digits\",\"individual_digits\":true},"
	    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}," BYTE_MODEL "}",
	    "{" ADDED ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{"
	    "\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
	    "\"content\":\"\xe2\x96\x81\"},{\"type\":\"NFKC\"}]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":"
	    "\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":"
	    "\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
	    "\",\"start\":1,\"stop\":0}]},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":"
	    "[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<"
	    "s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}}," CHARACTER_MODEL "}",
	    "{" ADDED ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\","
	    "\"split\":true},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":"
	    "\"\xe2\x96\x81\",\"prepend_scheme\":\"first\"},\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"<s>\",1],"
	    "\"sep\":[\"</s>\",2]}," CHARACTER_MODEL "}",
	    "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"MergedWithPrevious\",\"invert\":"
	    "true}," CHARACTER_MODEL "}",
	};
	if (i >= sizeof seeds / sizeof *seeds)
		return NULL;
	*size = strlen(seeds[i]);
	uint8_t *out = malloc(*size);
	assert(out);
	memcpy(out, seeds[i], *size);
	return out;
}
