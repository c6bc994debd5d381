#include "worker/data/tokens/record.h"

#include <stdlib.h>
#include <string.h>

#include "common/web/json.h"
#include "worker/data/tokens/conversation.h"

struct record_encoder {
	struct record_options options;
	struct encoder *encoder;
	struct buffer text; /* a prompt and its completion */
	struct conversation conversation;
	struct text_mark marks[2 * CHAT_MESSAGES_MAX];
	struct chat_text chat;
};

/* --- Documents */

void documents_clear(struct documents *d)
{
	d->ids.count = d->count = 0;
}

void documents_destroy(struct documents *d)
{
	free(d->ids.ids);
	free(d->counts);
	free(d->ends);
	free(d->masked);
	*d = (struct documents){0};
}

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for documents");
}

static weir_status make_room(struct documents *d, weir_error *err)
{
	if (d->count == d->capacity) {
		const size_t capacity = d->capacity * 2 + 64;
		size_t *ends = realloc(d->ends, capacity * sizeof *ends);
		d->ends = !ends ? d->ends : ends;
		bool *masked = realloc(d->masked, capacity * sizeof *masked);
		d->masked = !masked ? d->masked : masked;
		if (!ends || !masked)
			return out_of_memory(err);
		d->capacity = capacity;
	}
	if (d->ids.count > d->counts_capacity) {
		uint8_t *counts = realloc(d->counts, d->ids.capacity);
		if (!counts)
			return out_of_memory(err);
		d->counts = counts;
		d->counts_capacity = d->ids.capacity;
	}
	return WEIR_OK;
}

/* Makes the ids from `first` on a document. Marks come in pairs; the ids between the two of a pair
 * count. Without marks all ids count. */
static weir_status end_document(struct documents *d, size_t first, const struct text_mark *marks, size_t marks_count,
                                weir_error *err)
{
	const size_t count = d->ids.count - first;
	if (count == 0)
		return WEIR_OK;
	weir_status status = make_room(d, err);
	if (status != WEIR_OK)
		return status;
	memset(d->counts + first, !marks, count);
	for (size_t i = 0; i + 1 < marks_count; i += 2)
		memset(d->counts + marks[i].token, 1, marks[i + 1].token - marks[i].token);
	d->masked[d->count] = marks != NULL;
	d->ends[d->count++] = d->ids.count;
	return WEIR_OK;
}

/* --- Encoding */

weir_status record_encoder_create(struct record_encoder **out, const struct record_options *o, weir_error *err)
{
	struct record_encoder *e = calloc(1, sizeof *e);
	if (!e)
		return out_of_memory(err);
	e->options = *o;
	const weir_status status = encoder_create(&e->encoder, o->tokenizer, err);
	if (status != WEIR_OK) {
		record_encoder_destroy(e);
		return status;
	}
	*out = e;
	return WEIR_OK;
}

void record_encoder_destroy(struct record_encoder *e)
{
	if (!e)
		return;
	encoder_destroy(e->encoder);
	buffer_destroy(&e->text);
	buffer_destroy(&e->conversation.text);
	buffer_destroy(&e->chat.text);
	free(e);
}

/* Encodes a text with marks. With affixes, appends eos unless the ids already end with it. */
static weir_status add(struct record_encoder *e, const char *text, size_t bytes, size_t marks_count, bool affixes,
                       struct documents *out, weir_error *err)
{
	struct text_mark *marks = marks_count > 0 ? e->marks : NULL;
	const size_t first = out->ids.count;
	weir_status status =
	    encoder_run(e->encoder, text, bytes, &(struct encoding){.affixes = affixes, .marks = marks, .marks_count = marks_count},
	                &out->ids, err);
	const bool ends = out->ids.count > first && out->ids.ids[out->ids.count - 1] == e->options.eos;
	if (status == WEIR_OK && affixes && bytes > 0 && e->options.eos != TOKEN_NONE && !ends) {
		if (token_list_reserve(&out->ids, 1))
			out->ids.ids[out->ids.count++] = e->options.eos;
		else
			status = out_of_memory(err);
	}
	/* The token that ends a completion belongs to it. */
	if (status == WEIR_OK && affixes && marks)
		marks[marks_count - 1].token = out->ids.count;
	if (status == WEIR_OK && bytes == 0)
		out->ids.count = first; /* only bos and eos of an empty text */
	if (status == WEIR_OK)
		status = end_document(out, first, marks, marks_count, err);
	if (status != WEIR_OK)
		out->ids.count = first;
	return status;
}

weir_status record_add_text(struct record_encoder *e, const char *text, size_t bytes, struct documents *out, weir_error *err)
{
	return add(e, text, bytes, 0, true, out, err);
}

static weir_status add_pair(struct record_encoder *e, const char *prompt, size_t prompt_bytes, const char *completion,
                            size_t completion_bytes, struct documents *out, weir_error *err)
{
	e->text.size = 0;
	if (!buffer_append(&e->text, prompt, prompt_bytes, TOKENIZER_TEXT_BYTES_MAX) ||
	    !buffer_append(&e->text, completion, completion_bytes, TOKENIZER_TEXT_BYTES_MAX))
		return weir_fail(err, WEIR_E_LIMIT, "prompt and completion are too long");
	e->marks[0].at = prompt_bytes;
	e->marks[1].at = e->text.size;
	return add(e, e->text.data, e->text.size, 2, true, out, err);
}

static weir_status add_chat(struct record_encoder *e, const struct json_value *record, struct documents *out, weir_error *err)
{
	const struct tokenizer_info *info = tokenizer_get_info(e->options.tokenizer);
	const struct conversation *c = &e->conversation;
	const weir_status status = conversation_read(&e->conversation, record, e->options.chat, err);
	if (status != WEIR_OK)
		return status;
	const char *why = chat_render(e->options.chat, c->messages, c->count, info->bos_text, info->eos_text, &e->chat);
	if (why)
		return weir_fail(err, WEIR_E_INVALID, "%s", why);
	if (e->chat.answers_count == 0)
		return weir_fail(err, WEIR_E_INVALID, "a conversation in which the assistant says nothing");
	for (uint32_t i = 0; i < 2 * e->chat.answers_count; i++)
		e->marks[i].at = e->chat.answers[i];
	return add(e, e->chat.text.data, e->chat.text.size, 2 * e->chat.answers_count, false, out, err);
}

weir_status record_add_line(struct record_encoder *e, const char *line, size_t bytes, struct documents *out, weir_error *err)
{
	struct json *j;
	size_t text_bytes, more_bytes;
	weir_status status = json_parse_strings(line, bytes, "JSON", &j, err);
	if (status != WEIR_OK)
		return status;
	const struct json_value *root = json_root(j);
	const char *text = json_value_text(json_member(root, "text"), &text_bytes);
	const char *prompt = text ? NULL : json_value_text(json_member(root, "prompt"), &text_bytes);
	const char *completion = json_value_text(json_member(root, "completion"), &more_bytes);
	if (text)
		status = record_add_text(e, text, text_bytes, out, err);
	else if (prompt && completion)
		status = add_pair(e, prompt, text_bytes, completion, more_bytes, out, err);
	else if (conversation_is(root))
		status = add_chat(e, root, out, err);
	else
		status = weir_fail(err, WEIR_E_INVALID,
		                   "neither \"text\", nor \"prompt\" and \"completion\", nor a list \"messages\" or \"conversations\", "
		                   "nor \"instruction\" and "
		                   "\"output\"");
	json_destroy(j);
	return status;
}
