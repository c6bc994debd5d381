/* Reads the decoder of a tokenizer.json. The steps that apply to single tokens run here, once per
 * token, and fill a table. decoder.c runs the steps that apply to the whole text. */
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/read.h"
#include "worker/tokenizer/tokenizer_internal.h"
#include "worker/tokenizer/utf8.h"

#define DECODING_STEPS_MAX 16u
#define DECODED_BYTES_MAX  (16u * TOKENIZER_TOKEN_BYTES_MAX) /* one token */

/* A step of the decoder: changes a token. The steps run in order, up to Fuse. */
struct decoding_step {
	enum { DECODE_BYTE_LEVEL, DECODE_REPLACE, DECODE_BYTE_FALLBACK, DECODE_STRIP } kind;
	struct pattern *pattern;
	char *content; /* (bytes): replacement for the pattern; or the character to strip */
	size_t bytes;
	uint64_t start, stop; /* how many to strip */
};

struct decoding_steps {
	struct tokenizer *t;
	struct decoding_step steps[DECODING_STEPS_MAX];
	uint32_t count;
	bool fused;
	struct pattern_scratch *scratch;
};

/* --- Reading the steps */

static weir_status add_step(struct decoding_steps *s, int kind, struct decoding_step **out, weir_error *err)
{
	if (s->fused)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "behind Fuse only one Strip of the beginning is supported");
	if (s->count == DECODING_STEPS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "more than %u steps", DECODING_STEPS_MAX);
	*out = &s->steps[s->count++];
	(*out)->kind = kind;
	return WEIR_OK;
}

static weir_status read_strip(struct decoding_steps *s, const struct json_value *v, weir_error *err)
{
	struct decoding_step strip = {.kind = DECODE_STRIP}, *step = NULL;
	const char *content = json_value_text(json_member(v, "content"), &strip.bytes);
	if (!content || strip.bytes == 0 || utf8_length(content[0]) != strip.bytes)
		return weir_fail(err, WEIR_E_INVALID, "Strip: \"content\" is not one character");
	if (!json_value_count(json_member(v, "start"), &strip.start) || !json_value_count(json_member(v, "stop"), &strip.stop))
		return weir_fail(err, WEIR_E_INVALID, "Strip: \"start\" or \"stop\" is no whole number from 0");
	struct decoding *d = &s->t->decoding;
	if (s->fused && strip.stop == 0 && d->strips_bytes == 0) {
		memcpy(d->strips, content, strip.bytes);
		d->strips_bytes = (uint32_t)strip.bytes;
		d->strips_count = strip.start;
		return WEIR_OK;
	}
	weir_status status = add_step(s, DECODE_STRIP, &step, err);
	if (status != WEIR_OK)
		return status;
	*step = strip;
	return read_text(&step->content, &step->bytes, v, "content", err);
}

static weir_status read_metaspace(struct decoding_steps *s, const struct json_value *v, weir_error *err)
{
	struct decoding *d = &s->t->decoding;
	struct decoding_step *step = NULL;
	size_t bytes = 0;
	const char *replacement = json_value_text(json_member(v, "replacement"), &bytes);
	const char *scheme = json_value_text(json_member(v, "prepend_scheme"), NULL);
	bool prefix;
	if (!replacement || bytes == 0 || utf8_length(replacement[0]) != bytes)
		return weir_fail(err, WEIR_E_INVALID, "Metaspace: \"replacement\" is not one character");
	if (s->count > 0)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "Metaspace behind another step is not supported");
	weir_status status = read_bool(&prefix, v, "add_prefix_space", true, err);
	if (status == WEIR_OK && prefix && (!scheme || strcmp(scheme, "never") != 0)) {
		memcpy(d->first_drops, replacement, bytes);
		d->first_drops_bytes = (uint32_t)bytes;
	}
	if (status == WEIR_OK)
		status = add_step(s, DECODE_REPLACE, &step, err);
	if (status == WEIR_OK)
		status = pattern_literal(&step->pattern, replacement, bytes, err);
	if (status != WEIR_OK)
		return status;
	step->content = strdup(" ");
	step->bytes = 1;
	s->fused = true; /* later steps cannot know what the first token loses */
	return step->content ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory");
}

static weir_status read_member(void *arg, const char *type, const struct json_value *v, weir_error *err)
{
	struct decoding_steps *s = arg;
	struct decoding_step *step = NULL;
	if (strcmp(type, "Fuse") == 0) {
		s->fused = true;
		return WEIR_OK;
	}
	if (strcmp(type, "Strip") == 0)
		return read_strip(s, v, err);
	if (strcmp(type, "Metaspace") == 0)
		return read_metaspace(s, v, err);
	if (strcmp(type, "ByteFallback") == 0)
		return add_step(s, DECODE_BYTE_FALLBACK, &step, err);
	if (strcmp(type, "ByteLevel") == 0) {
		weir_status status = add_step(s, DECODE_BYTE_LEVEL, &step, err);
		s->fused = true;
		return status;
	}
	if (strcmp(type, "Replace") == 0) {
		weir_status status = add_step(s, DECODE_REPLACE, &step, err);
		if (status == WEIR_OK)
			status = read_pattern(&step->pattern, v, err);
		return status == WEIR_OK ? read_text(&step->content, &step->bytes, v, "content", err) : status;
	}
	return weir_fail(err, WEIR_E_UNSUPPORTED,
	                 "%.60s is not supported; ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip and Sequence are", type);
}

/* --- Running the steps on a token */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Converts <0x0A> to its byte. False: another token. */
static bool fall_back(struct buffer *b)
{
	const char *t = b->data;
	if (b->size != 6 || memcmp(t, "<0x", 3) != 0 || t[5] != '>' || hex_digit(t[3]) < 0 || hex_digit(t[4]) < 0)
		return false;
	b->data[0] = (char)(hex_digit(t[3]) * 16 + hex_digit(t[4]));
	b->size = 1;
	return true;
}

static void strip(const struct decoding_step *s, struct buffer *b)
{
	size_t begin = 0, end = b->size;
	for (uint64_t i = 0; i < s->start && end - begin >= s->bytes && memcmp(b->data + begin, s->content, s->bytes) == 0; i++)
		begin += s->bytes;
	for (uint64_t i = 0; i < s->stop && end - begin >= s->bytes && memcmp(b->data + end - s->bytes, s->content, s->bytes) == 0;
	     i++)
		end -= s->bytes;
	memmove(b->data, b->data + begin, end - begin);
	b->size = end - begin;
}

static weir_status replace(const struct decoding_steps *s, const struct decoding_step *step, struct buffer *b, weir_error *err)
{
	struct buffer made = {0};
	weir_status status =
	    pattern_replace(step->pattern, s->scratch, b->data, b->size, step->content, step->bytes, &made, DECODED_BYTES_MAX, err);
	buffer_destroy(b);
	*b = made;
	return status;
}

/* Converts characters to the bytes that they stand for. A token with other characters stays as it
 * is. */
static weir_status to_bytes(struct buffer *b, weir_error *err)
{
	char *bytes = malloc(b->size);
	size_t n;
	if (!bytes)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	if (bpe_bytes_of(b->data, b->size, bytes, &n)) {
		memcpy(b->data, bytes, n);
		b->size = n;
	}
	free(bytes);
	return WEIR_OK;
}

static weir_status run_steps(const struct decoding_steps *s, struct buffer *b, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < s->count && status == WEIR_OK && b->size > 0; i++) {
		const struct decoding_step *step = &s->steps[i];
		if (step->kind == DECODE_REPLACE)
			status = replace(s, step, b, err);
		else if (step->kind == DECODE_STRIP)
			strip(step, b);
		else if (step->kind == DECODE_BYTE_LEVEL)
			status = to_bytes(b, err);
		else if (fall_back(b))
			break; /* later steps take text, not a byte */
	}
	return status;
}

/* --- The table */

static weir_status put_token(struct decoding_steps *s, uint32_t id, const char *content, size_t bytes, weir_error *err)
{
	struct decoding *d = &s->t->decoding;
	struct buffer b = {0};
	weir_status status =
	    buffer_append(&b, content, bytes, DECODED_BYTES_MAX) ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory");
	if (status == WEIR_OK)
		status = run_steps(s, &b, err);
	const size_t at = d->block.size;
	if (status == WEIR_OK && !buffer_append(&d->block, b.data, b.size, UINT32_MAX - 1))
		status = weir_fail(err, WEIR_E_LIMIT, "the texts of all tokens are longer than 4 GiB, or than there is memory");
	d->tokens[id] = (struct string_place){(uint32_t)at, (uint32_t)b.size};
	d->longest = bytes > d->longest ? (uint32_t)bytes : d->longest;
	d->longest = b.size > d->longest ? (uint32_t)b.size : d->longest;
	buffer_destroy(&b);
	return status;
}

static weir_status put_added(struct decoding_steps *s, const struct added_set *set, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < set->count && status == WEIR_OK; i++) {
		const struct added_token *token = &set->tokens[i];
		s->t->decoding.special[token->id] = token->special;
		status = put_token(s, token->id, token->content, token->bytes, err);
	}
	return status;
}

/* Fills the table: added tokens in their normalized form, all others as in the vocabulary. */
static weir_status fill_table(struct decoding_steps *s, weir_error *err)
{
	struct tokenizer *t = s->t;
	struct decoding *d = &t->decoding;
	d->ids = t->info.vocabulary;
	d->tokens = malloc(d->ids * sizeof *d->tokens);
	d->special = calloc(d->ids, sizeof *d->special);
	if (!d->tokens || !d->special)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	memset(d->tokens, 0xff, d->ids * sizeof *d->tokens);
	weir_status status = WEIR_OK;
	for (uint32_t id = 0; id < t->model.ids && status == WEIR_OK; id++) {
		size_t bytes;
		const char *content = string_table_get(&t->model, id, &bytes);
		if (content)
			status = put_token(s, id, content, bytes, err);
	}
	if (status == WEIR_OK)
		status = put_added(s, &t->raw, err);
	return status == WEIR_OK ? put_added(s, &t->normalized, err) : status;
}

weir_status decoding_read(struct tokenizer *t, const struct json_value *v, weir_error *err)
{
	struct decoding_steps s = {.t = t, .scratch = pattern_scratch_create()};
	weir_status status = s.scratch ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory");
	t->decoding.spaces_between = json_is_absent(v);
	if (status == WEIR_OK)
		status = read_sequence(v, "decoders", read_member, &s, err);
	if (status == WEIR_OK)
		status = fill_table(&s, err);
	for (uint32_t i = 0; i < s.count; i++) {
		pattern_destroy(s.steps[i].pattern);
		free(s.steps[i].content);
	}
	pattern_scratch_destroy(s.scratch);
	return status;
}

void decoding_destroy(struct decoding *d)
{
	buffer_destroy(&d->block);
	free(d->tokens);
	free(d->special);
	*d = (struct decoding){0};
}
