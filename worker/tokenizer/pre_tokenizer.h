/* The pre-tokenizer of a tokenizer.json, which cuts texts into the pieces that are encoded apart: Split, ByteLevel, Metaspace, Digits, and Sequences of them.
 *
 * It is a list of plain steps: spaces replaced, something put in front, a cut at a pattern. ByteLevel is its last where there is one; what it does to characters,
 * which become those of their bytes, the model does by reading bytes (bpe.h). */
#ifndef WEIR_PRE_TOKENIZER_H
#define WEIR_PRE_TOKENIZER_H

#include "common/web/json.h"
#include "weir/status.h"
#include "worker/tokenizer/buffer.h"
#include "worker/tokenizer/pattern.h"
#include "worker/tokenizer/utf8.h"

#define PRE_STEPS_MAX 16u

struct pre_step {
	enum { PRE_REPLACE_SPACES, PRE_PREFIX, PRE_SPLIT } kind;
	char character[UTF8_CHARACTER_MAX]; /* (bytes): what spaces become; what begins a piece that does not begin with it */
	uint32_t bytes;
	bool first_only; /* PRE_PREFIX: of a text's first piece alone */
	struct pattern *pattern;
	enum { CUT_REMOVED, CUT_ISOLATED, CUT_WITH_PREVIOUS, CUT_WITH_NEXT, CUT_CONTIGUOUS } cut; /* where matches go */
	bool invert; /* what does not match is what does */
};

struct pre_tokenizer {
	struct pre_step steps[PRE_STEPS_MAX];
	uint32_t count; /* 0: a text is a piece */
	bool byte_level;
};

weir_status pre_tokenizer_read(struct pre_tokenizer *p, const struct json_value *v, weir_error *err);
void pre_tokenizer_free(struct pre_tokenizer *p);

/* What a run needs: buffers are a thread's own. */
struct pre_run {
	const struct pre_tokenizer *pre;
	struct pattern_scratch *scratch;
	struct buffer buffers[PRE_STEPS_MAX];
	size_t bytes_max;                                                                     /* of a piece */
	weir_status (*piece)(void *context, const char *text, size_t bytes, weir_error *err); /* in order; none is empty */
	void *context;
};
/* first: the text begins where the whole one does. */
weir_status pre_tokenizer_run(struct pre_run *r, const char *text, size_t bytes, bool first, weir_error *err);

#endif
