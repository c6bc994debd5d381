#include "worker/client/coder.h"

#include <stdlib.h>
#include <string.h>

struct coder *coder_create(const weir_table_spec *spec, weir_error *err)
{
	struct coder *c = calloc(1, sizeof *c);
	if (!c) {
		(void)weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
		return NULL;
	}
	c->own = compressor_create(backend_plain(), spec, err);
	if (!c->own) {
		free(c);
		return NULL;
	}
	c->encoder = compressor_encoder(c->own);
	return c;
}

struct coder *coder_of(const weir_encoder *encoder, const weir_table_spec *spec, weir_error *err)
{
	const weir_encoder *e = encoder;
	if (!e->check || !e->begin || !e->book || !e->chunk || !e->end || !e->residual || !e->take || !e->forget || !e->stats) {
		(void)weir_fail(err, WEIR_E_INVALID, "table %s: a call of its encoder is missing: all of weir_encoder's are needed",
		                spec->name);
		return NULL;
	}
	struct coder *c = calloc(1, sizeof *c);
	if (c)
		c->encoder = *encoder;
	else
		(void)weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	return c;
}

void coder_destroy(struct coder *c)
{
	if (!c)
		return;
	compressor_destroy(c->own);
	free(c);
}

size_t coder_head(const weir_encoder *encoder, const weir_compression *spec, uint8_t *out)
{
	if (!codec_has_use(spec->codec, WEIR_CODES_BY_BOOK) || spec->book != WEIR_BOOK_SEGMENTED)
		return 0;
	memcpy(out, encoder->book(encoder->arg), CODER_HEAD_MAX);
	return CODER_HEAD_MAX;
}

uint64_t coder_aux(const weir_compression *spec)
{
	return spec->codec == WEIR_CODEC_TOPK ? (uint64_t)spec->values : (uint64_t)spec->book;
}
