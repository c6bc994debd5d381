/* The decoder of tokenizer.h: the steps that apply to the text as a whole. */
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/tokenizer_internal.h"

struct decoder {
	const struct tokenizer *t;
	bool skip_special;
	bool begun; /* at least one token has come */
	/* characters stripped from the beginning so far; UINT64_MAX: the beginning is over */
	uint64_t stripped;
	char *buffer; /* (longest + 1) */
};

weir_status decoder_create(struct decoder **out, const struct tokenizer *t, bool skip_special, weir_error *err)
{
	struct decoder *d = calloc(1, sizeof *d);
	if (!d || !(d->buffer = malloc(t->decoding.longest + 2))) {
		free(d);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a decoder");
	}
	d->t = t;
	d->skip_special = skip_special;
	*out = d;
	return WEIR_OK;
}

void decoder_restart(struct decoder *d)
{
	d->begun = false;
	d->stripped = 0;
}

void decoder_destroy(struct decoder *d)
{
	if (!d)
		return;
	free(d->buffer);
	free(d);
}

/* The first token's content, without the character that stands for the space before it. */
static const char *drop_from_first(struct decoder *d, uint32_t id, size_t *bytes)
{
	const struct decoding *how = &d->t->decoding;
	size_t n = 0, length;
	const char *content = tokenizer_content(d->t, id, &length);
	for (size_t at = 0; at < length;) {
		const size_t character = utf8_length(content[at]);
		if (character != how->first_drops_bytes || memcmp(content + at, how->first_drops, character) != 0) {
			memcpy(d->buffer + n, content + at, character);
			n += character;
		}
		at += character;
	}
	*bytes = n;
	return d->buffer;
}

static const char *strip_beginning(struct decoder *d, const char *text, size_t *bytes)
{
	const struct decoding *how = &d->t->decoding;
	while (*bytes > 0 && d->stripped < how->strips_count) {
		if (*bytes < how->strips_bytes || memcmp(text, how->strips, how->strips_bytes) != 0) {
			d->stripped = UINT64_MAX;
			break;
		}
		text += how->strips_bytes;
		*bytes -= how->strips_bytes;
		d->stripped++;
	}
	return text;
}

const char *decoder_next(struct decoder *d, uint32_t id, size_t *bytes)
{
	const struct decoding *how = &d->t->decoding;
	*bytes = 0;
	if (d->t->info.bytes) {
		d->buffer[0] = (char)id;
		*bytes = id < WEIR_BYTE_TOKENS;
		return d->buffer;
	}
	if (id >= how->ids || how->tokens[id].at == STRING_NONE || (d->skip_special && how->special[id]))
		return d->buffer;
	const bool first = !d->begun;
	d->begun = true;
	const char *text = how->block.data + how->tokens[id].at;
	*bytes = how->tokens[id].bytes;
	if (first && how->first_drops_bytes > 0)
		return drop_from_first(d, id, bytes);
	if (!first && how->spaces_between) {
		d->buffer[0] = ' ';
		memcpy(d->buffer + 1, text, *bytes);
		++*bytes;
		return d->buffer;
	}
	return strip_beginning(d, text, bytes);
}
