/* Lines of JSONL, or an array of them: each becomes a document or is refused, and an array keeps
 * its length.
 *
 * Input: u8 chat format, the text. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/json_array.h"
#include "worker/data/tokens/record.h"
#include "worker/tokenizer/utf8.h"

static void add_lines(struct record_encoder *e, const char *text, size_t n, struct documents *d)
{
	for (const char *at = text, *end = text + n; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t bytes = (size_t)((newline ? newline : end) - at), count = d->count, ids = d->ids.count;
		weir_error err = {0};
		if (utf8_valid(at, bytes) == bytes && record_add_line(e, at, bytes, d, &err) != WEIR_OK)
			assert(d->count == count && d->ids.count == ids && err.text[0] != 0);
		at += bytes + 1;
	}
	assert(d->count == 0 || d->ends[d->count - 1] == d->ids.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum chat_format formats[] = {CHAT_CHATML, CHAT_LLAMA3, CHAT_NONE, CHAT_ALPACA};
	if (size < 1)
		return 0;
	struct tokenizer *t;
	struct record_encoder *e;
	struct documents d = {0};
	weir_error err = {0};
	assert(tokenizer_open(&t, "bytes", &err) == WEIR_OK);
	const struct record_options o = {.tokenizer = t, .chat = formats[data[0] % 4], .eos = TOKEN_NONE};
	assert(record_encoder_create(&e, &o, &err) == WEIR_OK);
	char *text = malloc(size);
	assert(text);
	memcpy(text, data + 1, size - 1);
	if (json_array_begins(text, size - 1, false)) {
		struct json_array array = {0};
		const size_t half = size / 2;
		json_array_to_lines(&array, text, half);
		json_array_to_lines(&array, text + half, size - 1 - half);
	}
	add_lines(e, text, size - 1, &d);
	free(text);
	documents_destroy(&d);
	record_encoder_destroy(e);
	tokenizer_close(t);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const char *const seeds[] = {
	    "\0{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, {\"role\": \"assistant\", "
	    "\"content\": \"b\\u0000\"}]}\n{\"text\": \"c\"}",
	    "\1{\"conversations\": [{\"from\": \"human\", \"value\": \" a \"}, {\"from\": \"gpt\", \"value\": \"b\", \"weight\": "
	    "1}]}",
	    "\3[{\"instruction\": \"a\", \"input\": \"b,]\", \"output\": \"c\"},\n {\"prompt\": \"d\", \"completion\": \"e\"}]"};
	if (i >= sizeof seeds / sizeof *seeds)
		return NULL;
	const size_t n = 1 + strlen(seeds[i] + 1);
	uint8_t *out = malloc(n);
	assert(out);
	memcpy(out, seeds[i], n);
	*size = n;
	return out;
}
