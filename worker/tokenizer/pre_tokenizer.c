#include "worker/tokenizer/pre_tokenizer.h"

#include "worker/tokenizer/read.h"

/* GPT-2's pattern, at which ByteLevel cuts (Radford et al. 2019, encoder.py). */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* --- Reading */

static weir_status add_step(struct pre_tokenizer *p, struct pre_step **out, weir_error *err)
{
	if (p->byte_level)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "something follows ByteLevel, which is not supported: it is to be the last");
	if (p->count == PRE_STEPS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "more than %u steps", PRE_STEPS_MAX);
	*out = &p->steps[p->count++];
	return WEIR_OK;
}

static weir_status add_character(struct pre_tokenizer *p, int kind, const char *character, size_t bytes, bool first_only,
                                 weir_error *err)
{
	struct pre_step *step = NULL;
	weir_status status = add_step(p, &step, err);
	if (status != WEIR_OK)
		return status;
	*step = (struct pre_step){.kind = kind, .bytes = (uint32_t)bytes, .first_only = first_only};
	memcpy(step->character, character, bytes);
	return WEIR_OK;
}

static weir_status add_split(struct pre_tokenizer *p, const char *pattern, int cut, weir_error *err)
{
	struct pre_step *step = NULL;
	weir_status status = add_step(p, &step, err);
	if (status != WEIR_OK)
		return status;
	*step = (struct pre_step){.kind = PRE_SPLIT, .cut = cut};
	return pattern_compile(&step->pattern, pattern, strlen(pattern), err);
}

static weir_status read_split(struct pre_tokenizer *p, const struct json_value *v, weir_error *err)
{
	static const struct {
		const char *name;
		int cut;
	} cuts[] = {{"Removed", CUT_REMOVED},
	            {"Isolated", CUT_ISOLATED},
	            {"MergedWithPrevious", CUT_WITH_PREVIOUS},
	            {"MergedWithNext", CUT_WITH_NEXT},
	            {"Contiguous", CUT_CONTIGUOUS}};
	const char *behavior = json_value_text(json_member(v, "behavior"), NULL);
	struct pre_step *step = NULL;
	weir_status status = add_step(p, &step, err);
	if (status != WEIR_OK)
		return status;
	step->kind = PRE_SPLIT;
	size_t i = 0;
	while (behavior && i < sizeof cuts / sizeof *cuts && strcmp(behavior, cuts[i].name) != 0)
		i++;
	if (!behavior || i == sizeof cuts / sizeof *cuts)
		return weir_fail(err, WEIR_E_INVALID,
		                 "Split: \"behavior\" must be one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
	step->cut = cuts[i].cut;
	status = read_bool(&step->invert, v, "invert", false, err);
	return status == WEIR_OK ? read_pattern(&step->pattern, v, err) : status;
}

static weir_status read_byte_level(struct pre_tokenizer *p, const struct json_value *v, weir_error *err)
{
	bool prefix, regex;
	weir_status status = read_bool(&prefix, v, "add_prefix_space", true, err);
	if (status == WEIR_OK)
		status = read_bool(&regex, v, "use_regex", true, err);
	if (status == WEIR_OK && prefix)
		status = add_character(p, PRE_PREFIX, " ", 1, false, err);
	if (status == WEIR_OK && regex)
		status = add_split(p, gpt2_pattern, CUT_ISOLATED, err);
	if (status == WEIR_OK && p->byte_level)
		status = weir_fail(err, WEIR_E_UNSUPPORTED, "ByteLevel twice is not supported");
	p->byte_level = true;
	return status;
}

static weir_status read_metaspace(struct pre_tokenizer *p, const struct json_value *v, weir_error *err)
{
	size_t bytes = 0;
	const char *replacement = json_value_text(json_member(v, "replacement"), &bytes);
	const char *scheme = json_value_text(json_member(v, "prepend_scheme"), NULL);
	bool prefix, split;
	if (!replacement || bytes == 0 || utf8_length(replacement[0]) != bytes)
		return weir_fail(err, WEIR_E_INVALID, "Metaspace: \"replacement\" is not one character");
	weir_status status = read_bool(&prefix, v, "add_prefix_space", true, err);
	if (status == WEIR_OK)
		status = read_bool(&split, v, "split", true, err);
	if (status != WEIR_OK)
		return status;
	const bool first = scheme && strcmp(scheme, "first") == 0, never = scheme && strcmp(scheme, "never") == 0;
	if (scheme && !first && !never && strcmp(scheme, "always") != 0)
		return weir_fail(err, WEIR_E_INVALID, "Metaspace: \"prepend_scheme\" must be one of always, first, never");
	if (!prefix && scheme && !never)
		return weir_fail(err, WEIR_E_INVALID, "Metaspace: \"add_prefix_space\" is false, and \"prepend_scheme\" is not never");
	status = add_character(p, PRE_REPLACE_SPACES, replacement, bytes, false, err);
	if (status == WEIR_OK && prefix && !never)
		status = add_character(p, PRE_PREFIX, replacement, bytes, first, err);
	if (status != WEIR_OK || !split)
		return status;
	struct pre_step *step = NULL;
	status = add_step(p, &step, err);
	if (status != WEIR_OK)
		return status;
	*step = (struct pre_step){.kind = PRE_SPLIT, .cut = CUT_WITH_NEXT};
	return pattern_literal(&step->pattern, replacement, bytes, err);
}

static weir_status read_member(void *arg, const char *type, const struct json_value *v, weir_error *err)
{
	if (strcmp(type, "Split") == 0)
		return read_split(arg, v, err);
	if (strcmp(type, "ByteLevel") == 0)
		return read_byte_level(arg, v, err);
	if (strcmp(type, "Metaspace") == 0)
		return read_metaspace(arg, v, err);
	if (strcmp(type, "Digits") == 0) {
		bool each;
		weir_status status = read_bool(&each, v, "individual_digits", false, err);
		return status == WEIR_OK ? add_split(arg, "\\p{N}", each ? CUT_ISOLATED : CUT_CONTIGUOUS, err) : status;
	}
	return weir_fail(err, WEIR_E_UNSUPPORTED, "%s is not supported; Split, ByteLevel, Metaspace, Digits and Sequence are", type);
}

weir_status pre_tokenizer_read(struct pre_tokenizer *p, const struct json_value *v, weir_error *err)
{
	*p = (struct pre_tokenizer){0};
	return read_sequence(v, "pretokenizers", read_member, p, err);
}

void pre_tokenizer_destroy(struct pre_tokenizer *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		pattern_destroy(p->steps[i].pattern);
	*p = (struct pre_tokenizer){0};
}

/* --- Running */

static weir_status run(struct pre_run *r, uint32_t k, const char *text, size_t bytes, bool first, weir_error *err);

static weir_status put(struct pre_run *r, struct buffer *b, const char *text, size_t bytes, weir_error *err)
{
	return buffer_append(b, text, bytes, r->bytes_max) ? WEIR_OK : pattern_too_long(r->bytes_max, err);
}

static weir_status replace_spaces(struct pre_run *r, uint32_t k, const char *text, size_t bytes, bool first, weir_error *err)
{
	const struct pre_step *step = &r->pre->steps[k];
	struct buffer *b = &r->buffers[k];
	weir_status status = WEIR_OK;
	b->size = 0;
	for (size_t at = 0; at < bytes && status == WEIR_OK;) {
		const char *space = memchr(text + at, ' ', bytes - at);
		const size_t n = (!space ? bytes : (size_t)(space - text)) - at;
		status = put(r, b, text + at, n, err);
		if (status == WEIR_OK && space)
			status = put(r, b, step->character, step->bytes, err);
		at += n + 1;
	}
	return status == WEIR_OK ? run(r, k + 1, b->data, b->size, first, err) : status;
}

static weir_status put_prefix(struct pre_run *r, uint32_t k, const char *text, size_t bytes, bool first, weir_error *err)
{
	const struct pre_step *step = &r->pre->steps[k];
	struct buffer *b = &r->buffers[k];
	if ((step->first_only && !first) || (bytes >= step->bytes && memcmp(text, step->character, step->bytes) == 0))
		return run(r, k + 1, text, bytes, first, err);
	b->size = 0;
	weir_status status = put(r, b, step->character, step->bytes, err);
	if (status == WEIR_OK)
		status = put(r, b, text, bytes, err);
	return status == WEIR_OK ? run(r, k + 1, b->data, b->size, first, err) : status;
}

/* The state of a cut. Matching and other stretches come in order; a stretch that may still grow
 * waits. */
struct cutting {
	struct pre_run *r;
	uint32_t next; /* the next step */
	const char *text;
	bool first;
	bool waits, waits_matched; /* [begin, end) waits; it is a single match */
	bool matched;              /* the last stretch was a match */
	size_t begin, end;
};

static weir_status pass_on(struct cutting *c, weir_error *err)
{
	if (!c->waits)
		return WEIR_OK;
	c->waits = false;
	return run(c->r, c->next, c->text + c->begin, c->end - c->begin, c->first && c->begin == 0, err);
}

/* Whether a stretch joins the waiting one. */
static bool joins(const struct cutting *c, int cut, bool matched)
{
	switch (cut) {
	case CUT_WITH_PREVIOUS: /* a match joins a stretch that is not a match */
		return matched && !c->matched;
	case CUT_WITH_NEXT: /* a stretch that is not a match joins a match */
		return !matched && c->waits_matched;
	case CUT_CONTIGUOUS: /* matches join each other, and so do the others */
		return matched == c->matched;
	default:
		return false;
	}
}

static weir_status stretch(struct cutting *c, int cut, size_t begin, size_t end, bool matched, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (c->waits && joins(c, cut, matched)) {
		c->end = end;
		c->waits_matched = false;
	} else {
		status = pass_on(c, err);
		c->waits = cut != CUT_REMOVED || !matched;
		c->begin = begin;
		c->end = end;
		c->waits_matched = matched;
	}
	c->matched = matched;
	return status;
}

static weir_status split(struct pre_run *r, uint32_t k, const char *text, size_t bytes, bool first, weir_error *err)
{
	const struct pre_step *step = &r->pre->steps[k];
	struct cutting c = {.r = r, .next = k + 1, .text = text, .first = first};
	size_t at = 0, begin = bytes, end = bytes;
	while (at < bytes) {
		bool found;
		weir_status status = pattern_find(step->pattern, r->scratch, text, bytes, at, &found, &begin, &end, err);
		if (!found)
			begin = end = bytes;
		if (status == WEIR_OK && begin > at)
			status = stretch(&c, step->cut, at, begin, step->invert, err);
		if (status == WEIR_OK && found)
			status = stretch(&c, step->cut, begin, end, !step->invert, err);
		if (status != WEIR_OK)
			return status;
		at = end;
	}
	return pass_on(&c, err);
}

/* Runs step k on a piece. */
static weir_status run(struct pre_run *r, uint32_t k, const char *text, size_t bytes, bool first, weir_error *err)
{
	if (bytes == 0)
		return WEIR_OK;
	if (k == r->pre->count)
		return r->piece(r->context, text, bytes, err);
	switch (r->pre->steps[k].kind) {
	case PRE_REPLACE_SPACES:
		return replace_spaces(r, k, text, bytes, first, err);
	case PRE_PREFIX:
		return put_prefix(r, k, text, bytes, first, err);
	default:
		return split(r, k, text, bytes, first, err);
	}
}

weir_status pre_tokenizer_run(struct pre_run *r, const char *text, size_t bytes, bool first, weir_error *err)
{
	return run(r, 0, text, bytes, first, err);
}
