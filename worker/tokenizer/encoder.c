/* The encoder of tokenizer.h: converts a text to ids. */
#include <assert.h>
#include <stdlib.h>

#include "worker/tokenizer/tokenizer_internal.h"
#include "worker/tokenizer/utf8.h"

struct encoder {
	const struct tokenizer *t;
	struct pattern_scratch *patterns;
	struct bpe_scratch *words;
	struct buffer normal[2];
	struct pre_run pre;

	/* the text being encoded */
	const char *text;
	struct token_list *out;
	struct text_mark *mark, *marks_end; /* marks not found yet */
	struct token_list before_mark;      /* tokens of a section's beginning, encoded alone */

	/* a normalized section without raw added tokens */
	const char *normalized;
	bool first; /* it is the beginning of the text */
};

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory encoding a text");
}

static weir_status encode_piece(void *context, const char *text, size_t bytes, weir_error *err)
{
	struct encoder *e = context;
	return bpe_encode(&e->t->bpe, e->words, text, bytes, e->out, err);
}

weir_status encoder_create(struct encoder **out, const struct tokenizer *t, weir_error *err)
{
	struct encoder *e = calloc(1, sizeof *e);
	if (!e)
		return out_of_memory(err);
	e->t = t;
	if (!t->info.bytes) {
		e->patterns = pattern_scratch_create();
		e->words = bpe_scratch_create();
		if (!e->patterns || !e->words) {
			encoder_destroy(e);
			return out_of_memory(err);
		}
		e->pre = (struct pre_run){
		    .pre = &t->pre, .scratch = e->patterns, .bytes_max = TOKENIZER_TEXT_BYTES_MAX, .piece = encode_piece, .context = e};
	}
	*out = e;
	return WEIR_OK;
}

void encoder_destroy(struct encoder *e)
{
	if (!e)
		return;
	pattern_scratch_destroy(e->patterns);
	bpe_scratch_destroy(e->words);
	buffer_destroy(&e->normal[0]);
	buffer_destroy(&e->normal[1]);
	for (uint32_t i = 0; i < PRE_STEPS_MAX; i++)
		buffer_destroy(&e->pre.buffers[i]);
	free(e->before_mark.ids);
	free(e);
}

static weir_status put(struct token_list *out, const uint32_t *ids, uint32_t count, weir_error *err)
{
	if (!token_list_reserve(out, count))
		return out_of_memory(err);
	for (uint32_t i = 0; i < count; i++)
		out->ids[out->count++] = ids[i];
	return WEIR_OK;
}

/* --- Sections, from the whole text inwards */

/* Encodes a stretch of a normalized section. */
static weir_status normalized_section(void *context, size_t begin, size_t end, uint32_t id, weir_error *err)
{
	struct encoder *e = context;
	if (id != STRING_NONE)
		return put(e->out, &id, 1, err);
	return pre_tokenizer_run(&e->pre, e->normalized + begin, end - begin, e->first && begin == 0, err);
}

/* Encodes bytes [begin, end) of the text. They contain no added tokens, except those that are
 * looked for in normalized text. */
static weir_status encode_section(struct encoder *e, size_t begin, size_t end, weir_error *err)
{
	size_t bytes;
	weir_status status = normalizer_run(&e->t->normalizer, e->patterns, e->normal, e->text + begin, end - begin,
	                                    TOKENIZER_TEXT_BYTES_MAX, &e->normalized, &bytes, err);
	e->first = begin == 0;
	if (status != WEIR_OK)
		return status;
	return added_set_cut(&e->t->normalized, e->patterns, e->normalized, bytes, normalized_section, e, err);
}

/* Resolves a mark inside a section: encodes the section's beginning alone, and counts the tokens
 * that equal those of the whole section. */
static weir_status find_inside(struct encoder *e, size_t begin, size_t first_token, struct text_mark *mark, weir_error *err)
{
	struct token_list *whole = e->out, *alone = &e->before_mark;
	alone->count = 0;
	e->out = alone;
	const weir_status status = encode_section(e, begin, mark->at, err);
	e->out = whole;
	mark->token = first_token;
	for (size_t i = 0; status == WEIR_OK && i < alone->count && first_token + i < whole->count; i++, mark->token++)
		if (alone->ids[i] != whole->ids[first_token + i])
			break;
	return status;
}

/* Encodes a stretch of the text. */
static weir_status section(void *context, size_t begin, size_t end, uint32_t id, weir_error *err)
{
	struct encoder *e = context;
	const size_t first_token = e->out->count;
	for (; e->mark != e->marks_end && e->mark->at <= begin; e->mark++)
		e->mark->token = first_token;
	weir_status status = id != STRING_NONE ? put(e->out, &id, 1, err) : encode_section(e, begin, end, err);
	for (; status == WEIR_OK && e->mark != e->marks_end && e->mark->at < end; e->mark++) {
		e->mark->token = e->out->count;
		if (id == STRING_NONE)
			status = find_inside(e, begin, first_token, e->mark, err);
	}
	return status;
}

/* --- A text */

static weir_status encode_bytes(struct encoder *e, size_t bytes, weir_error *err)
{
	const size_t first = e->out->count;
	if (!token_list_reserve(e->out, bytes))
		return out_of_memory(err);
	for (size_t i = 0; i < bytes; i++)
		e->out->ids[e->out->count++] = (uint8_t)e->text[i];
	for (; e->mark != e->marks_end; e->mark++)
		e->mark->token = first + (e->mark->at < bytes ? e->mark->at : bytes);
	return WEIR_OK;
}

static weir_status encode_text(struct encoder *e, size_t bytes, weir_error *err)
{
	const size_t valid = utf8_valid(e->text, bytes);
	if (valid < bytes)
		return weir_fail(err, WEIR_E_INVALID, "invalid UTF-8 at byte %zu", valid);
	weir_status status = added_set_cut(&e->t->raw, e->patterns, e->text, bytes, section, e, err);
	for (; e->mark != e->marks_end; e->mark++) /* marks at the end */
		e->mark->token = e->out->count;
	return status;
}

weir_status encoder_run(struct encoder *e, const char *text, size_t bytes, const struct encoding *how, struct token_list *out,
                        weir_error *err)
{
	const struct tokenizer *t = e->t;
	weir_status status = WEIR_OK;
	if (bytes > TOKENIZER_TEXT_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "a text of %zu bytes; at most %u are taken as one", bytes, TOKENIZER_TEXT_BYTES_MAX);
	e->text = text;
	e->out = out;
	e->mark = how->marks;
	e->marks_end = !how->marks ? NULL : how->marks + how->marks_count;
	if (how->affixes)
		status = put(out, t->before.ids, t->before.count, err);
	if (status == WEIR_OK)
		status = t->info.bytes ? encode_bytes(e, bytes, err) : encode_text(e, bytes, err);
	if (status == WEIR_OK && how->affixes)
		status = put(out, t->behind.ids, t->behind.count, err);
	return status;
}
