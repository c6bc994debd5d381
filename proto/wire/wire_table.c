/* Converts tables between their public form (weir/table.h) and their wire form. The only place that
 * defines which descriptions are valid. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/codec_traits.h"
#include "common/base/limits.h"
#include "common/base/optimizer_traits.h"
#include "proto/wire/wire.h"

_Static_assert(WEIR_TABLE_NAME_BYTES == WEIR_TABLE_NAME_BYTES_MAX, "the public header and limits.h must agree");
_Static_assert(WEIR_CHUNK == WEIR_CHUNK_ELEMENTS, "the public header and limits.h must agree");

weir_status wire_table_make(struct wire_table *out, const weir_table_spec *spec, uint32_t id)
{
	const weir_optimizer *o = &spec->optimizer;
	memset(out, 0, sizeof *out);
	if (spec->segments_count) {
		out->segments = calloc(spec->segments_count, sizeof *out->segments);
		out->segment_list = calloc(spec->segments_count, sizeof *out->segment_list);
		if (!out->segments || !out->segment_list) {
			wire_table_destroy(out);
			return WEIR_E_MEMORY;
		}
	}
	weir__v1__schedule__init(&out->schedule);
	out->schedule.kind = o->schedule.kind;
	out->schedule.warmup = o->schedule.warmup;
	out->schedule.total = o->schedule.total;
	out->schedule.decay = o->schedule.decay;
	out->schedule.period = o->schedule.period;
	out->schedule.min = o->schedule.min;
	out->schedule.gamma = o->schedule.gamma;
	weir__v1__optimizer__init(&out->optimizer);
	out->optimizer.kind = o->kind;
	out->optimizer.lr = o->lr;
	out->optimizer.momentum = o->momentum;
	out->optimizer.beta1 = o->beta1;
	out->optimizer.beta2 = o->beta2;
	out->optimizer.eps = o->eps;
	out->optimizer.initial = o->initial;
	out->optimizer.weight_decay = o->weight_decay;
	out->optimizer.l1 = o->l1;
	out->optimizer.l2 = o->l2;
	out->optimizer.ftrl_beta = o->ftrl_beta;
	out->optimizer.window = o->window;
	out->optimizer.decay = o->decay;
	out->optimizer.schedule = &out->schedule;
	weir__v1__table__init(&out->table);
	out->table.id = id;
	out->table.name = (char *)(uintptr_t)spec->name; /* packing only reads it */
	out->table.kind = spec->kind;
	out->table.width = spec->width;
	out->table.elements = spec->elements;
	out->table.optimizer = &out->optimizer;
	out->table.mode = spec->mode.kind;
	out->table.backup = spec->mode.backup;
	out->table.bound = spec->mode.bound;
	out->table.local_steps = spec->mode.local_steps;
	out->table.fragments = spec->mode.fragments;
	out->table.local_speed = spec->mode.local_speed;
	out->table.staleness_rate = spec->mode.staleness_rate;
	out->table.push_codec = spec->push.codec;
	out->table.push_values = spec->push.values;
	out->table.push_book = spec->push.book;
	out->table.push_density = spec->push.density;
	out->table.push_momentum = spec->push.momentum;
	out->table.push_warmup = spec->push.warmup;
	out->table.push_feedback = spec->push.feedback;
	out->table.pull_codec = spec->pull.codec;
	out->table.pull_values = spec->pull.values;
	out->table.pull_book = spec->pull.book;
	out->table.pull_density = spec->pull.density;
	out->table.pull_every = spec->pull.every;
	out->table.push_lz4 = spec->push.lz4;
	out->table.push_clip = spec->push.clip;
	out->table.push_rows = spec->push.rows;
	out->table.seed = spec->seed;
	out->table.admission = spec->admission.kind;
	out->table.admission_count = spec->admission.count;
	out->table.admission_probability = spec->admission.probability;
	out->table.ttl_s = spec->eviction.ttl_s;
	out->table.min_score = spec->eviction.min_score;
	out->table.half_life_s = spec->eviction.half_life_s;
	out->table.n_segments = spec->segments_count;
	out->table.segments = out->segment_list;
	for (uint32_t i = 0; i < spec->segments_count; i++) {
		weir__v1__init_segment__init(&out->segments[i]);
		out->segments[i].elements = spec->segments[i].elements;
		out->segments[i].kind = spec->segments[i].kind;
		out->segments[i].a = spec->segments[i].a;
		out->segments[i].undecayed = spec->segments[i].undecayed;
		out->segment_list[i] = &out->segments[i];
	}
	return WEIR_OK;
}

void wire_table_destroy(struct wire_table *t)
{
	free(t->segments);
	free(t->segment_list);
	t->segments = NULL;
	t->segment_list = NULL;
}

static void optimizer_read(const Weir__V1__Optimizer *in, weir_optimizer *out)
{
	*out = (weir_optimizer){
	    .kind = (weir_optimizer_kind)in->kind,
	    .lr = in->lr,
	    .momentum = in->momentum,
	    .beta1 = in->beta1,
	    .beta2 = in->beta2,
	    .eps = in->eps,
	    .initial = in->initial,
	    .weight_decay = in->weight_decay,
	    .l1 = in->l1,
	    .l2 = in->l2,
	    .ftrl_beta = in->ftrl_beta,
	    .window = in->window,
	    .decay = (weir_decay)in->decay,
	};
	const Weir__V1__Schedule *s = in->schedule;
	if (s)
		out->schedule = (weir_schedule){(weir_schedule_kind)s->kind, s->warmup, s->total, s->decay, s->period, s->min, s->gamma};
}

weir_status wire_table_read(const Weir__V1__Table *in, weir_table_spec *spec, uint32_t *id, weir_error *err)
{
	memset(spec, 0, sizeof *spec);
	size_t name_bytes = strlen(in->name);
	if (name_bytes >= WEIR_TABLE_NAME_BYTES)
		return weir_fail(err, WEIR_E_LIMIT, "table name: %zu bytes, below %u", name_bytes, WEIR_TABLE_NAME_BYTES);
	if (in->n_segments > WEIR_TABLE_SEGMENTS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "table %s: %zu segments, at most %u", in->name, in->n_segments,
		                 WEIR_TABLE_SEGMENTS_MAX);
	if (in->id >= WEIR_TABLES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "table %s: id %u, below %u", in->name, in->id, WEIR_TABLES_MAX);
	if (!in->optimizer)
		return weir_fail(err, WEIR_E_INVALID, "table %s: no optimizer", in->name);
	weir_init_segment *segments = calloc(in->n_segments ? in->n_segments : 1, sizeof *segments);
	if (!segments)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", in->name);
	for (size_t i = 0; i < in->n_segments; i++)
		segments[i] = (weir_init_segment){in->segments[i]->elements, (weir_init_kind)in->segments[i]->kind, in->segments[i]->a,
		                                  in->segments[i]->undecayed};
	memcpy(spec->name, in->name, name_bytes);
	spec->kind = (weir_table_kind)in->kind;
	spec->width = in->width;
	spec->elements = in->elements;
	optimizer_read(in->optimizer, &spec->optimizer);
	spec->mode = (weir_mode){.kind = (weir_mode_kind)in->mode,
	                         .backup = in->backup,
	                         .bound = in->bound,
	                         .local_steps = in->local_steps,
	                         .fragments = in->fragments,
	                         .local_speed = in->local_speed,
	                         .staleness_rate = in->staleness_rate};
	spec->push = (weir_compression){.codec = (weir_codec)in->push_codec,
	                                .values = (weir_values)in->push_values,
	                                .book = (weir_book)in->push_book,
	                                .density = in->push_density,
	                                .momentum = in->push_momentum,
	                                .warmup = in->push_warmup,
	                                .feedback = in->push_feedback,
	                                .lz4 = (weir_lz4)in->push_lz4,
	                                .clip = in->push_clip,
	                                .rows = in->push_rows};
	spec->pull = (weir_pull_coding){.codec = (weir_codec)in->pull_codec,
	                                .values = (weir_values)in->pull_values,
	                                .book = (weir_book)in->pull_book,
	                                .density = in->pull_density,
	                                .every = in->pull_every};
	spec->segments_count = (uint32_t)in->n_segments;
	spec->segments = segments;
	spec->seed = in->seed;
	spec->admission = (weir_admission){(weir_admission_kind)in->admission, in->admission_count, in->admission_probability};
	spec->eviction = (weir_eviction){in->ttl_s, in->min_score, in->half_life_s};
	*id = in->id;
	weir_status status = wire_table_check(spec, err);
	if (status) {
		free(segments);
		spec->segments = NULL;
	}
	return status;
}

/* X(expression over weir_table_spec): the fields that a comparison covers; floats by their bits. */
/* clang-format off */
#define TABLE_FIELD_MAP(X)                                                                                              \
	X(kind) X(width) X(elements) X(optimizer.kind) X(optimizer.lr) X(optimizer.momentum) X(optimizer.beta1)             \
	X(optimizer.beta2) X(optimizer.eps) X(optimizer.initial) X(optimizer.weight_decay) X(optimizer.l1) X(optimizer.l2)  \
	X(optimizer.ftrl_beta) X(optimizer.window) X(optimizer.decay) X(optimizer.schedule.kind)                            \
	X(optimizer.schedule.warmup) X(optimizer.schedule.total) X(optimizer.schedule.decay) X(optimizer.schedule.period)   \
	X(optimizer.schedule.min) X(optimizer.schedule.gamma) X(mode.kind) X(mode.backup) X(pull.codec)       \
	X(mode.bound) X(mode.local_steps) X(mode.fragments) X(mode.local_speed) X(mode.staleness_rate)                      \
	X(admission.kind) X(admission.count) X(admission.probability) X(eviction.ttl_s) X(eviction.min_score)               \
	X(eviction.half_life_s) X(segments_count) X(seed) X(push.codec) X(push.values) X(push.book) X(push.density)         \
	X(push.momentum) X(push.warmup) X(push.feedback) X(pull.values) X(pull.book) X(pull.density) X(pull.every) X(push.lz4) X(push.clip) \
	X(push.rows)
/* clang-format on */

bool wire_table_equal(const weir_table_spec *a, const weir_table_spec *b, struct wire_table_difference *first)
{
	*first = (struct wire_table_difference){.field = "name"};
	if (strcmp(a->name, b->name) != 0)
		return false;
#define FIELD_EQUAL(x, y, name)                                                       \
	*first = (struct wire_table_difference){.field = name, (double)(x), (double)(y)}; \
	if (memcmp(&(x), &(y), sizeof(x)) != 0)                                           \
		return false;
#define TABLE_FIELD_EQUAL(member) FIELD_EQUAL(a->member, b->member, #member)
	TABLE_FIELD_MAP(TABLE_FIELD_EQUAL)
	for (uint32_t i = 0; i < a->segments_count; i++) {
		const weir_init_segment *x = &a->segments[i], *y = &b->segments[i];
		FIELD_EQUAL(x->elements, y->elements, "segments.elements")
		FIELD_EQUAL(x->kind, y->kind, "segments.kind")
		FIELD_EQUAL(x->a, y->a, "segments.a")
		FIELD_EQUAL(x->undecayed, y->undecayed, "segments.undecayed")
	}
#undef TABLE_FIELD_EQUAL
#undef FIELD_EQUAL
	*first = (struct wire_table_difference){.field = ""};
	return true;
}

static weir_status check_name(const char *name, weir_error *err)
{
	size_t n = strnlen(name, WEIR_TABLE_NAME_BYTES);
	if (n == 0 || n == WEIR_TABLE_NAME_BYTES || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != n)
		return weir_fail(err, WEIR_E_INVALID, "table name '%.*s': 1 to %u of [a-z0-9_.-]", (int)n, name,
		                 WEIR_TABLE_NAME_BYTES - 1);
	return WEIR_OK;
}

static weir_status check_shape(const weir_table_spec *t, weir_error *err)
{
	if (t->kind != WEIR_EMBEDDING && t->kind != WEIR_DENSE)
		return weir_fail(err, WEIR_E_INVALID, "table %s: kind %u is neither embedding nor dense", t->name, t->kind);
	bool dense = t->kind == WEIR_DENSE;
	if (!dense && (t->width == 0 || t->width > WEIR_ROW_WIDTH_MAX))
		return weir_fail(err, WEIR_E_LIMIT, "table %s: width %u, expected 1 to %u", t->name, t->width, WEIR_ROW_WIDTH_MAX);
	if (dense && (t->elements == 0 || t->elements > WEIR_TABLE_ELEMENTS_MAX))
		return weir_fail(err, WEIR_E_LIMIT, "table %s: %llu elements, expected 1 to %llu", t->name,
		                 (unsigned long long)t->elements, (unsigned long long)WEIR_TABLE_ELEMENTS_MAX);
	if (t->segments_count > WEIR_TABLE_SEGMENTS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "table %s: %u segments, at most %u", t->name, t->segments_count,
		                 WEIR_TABLE_SEGMENTS_MAX);
	uint64_t want = dense ? t->elements : t->width, sum = 0;
	for (uint32_t i = 0; i < t->segments_count; i++) {
		const weir_init_segment *s = &t->segments[i];
		if ((unsigned)s->kind > WEIR_INIT_NORMAL || !isfinite(s->a))
			return weir_fail(err, WEIR_E_INVALID, "table %s: segment %u has kind %u, a %g", t->name, i, s->kind, (double)s->a);
		if (s->undecayed && !dense)
			return weir_fail(err, WEIR_E_INVALID, "table %s: weight_decay leaves out elements of dense tables alone", t->name);
		if (s->elements > want - sum)
			return weir_fail(err, WEIR_E_INVALID, "table %s: segment %u goes beyond the table's %llu elements", t->name, i,
			                 (unsigned long long)want);
		sum += s->elements;
	}
	if (sum != want)
		return weir_fail(err, WEIR_E_INVALID, "table %s: initialiser segments cover %llu of %llu elements", t->name,
		                 (unsigned long long)sum, (unsigned long long)want);
	return WEIR_OK;
}

static weir_status check_optimizer(const weir_table_spec *t, weir_error *err)
{
	const weir_optimizer *o = &t->optimizer;
	const struct {
		const char *name;
		float value, below;
	} rates[] = {
	    {"lr", o->lr, INFINITY},
	    {"momentum", o->momentum, 1.0f},
	    {"beta1", o->beta1, 1.0f},
	    {"beta2", o->beta2, 1.0f},
	    {"eps", o->eps, INFINITY},
	    {"initial", o->initial, INFINITY},
	    {"weight_decay", o->weight_decay, INFINITY},
	    {"l1", o->l1, INFINITY},
	    {"l2", o->l2, INFINITY},
	    {"ftrl_beta", o->ftrl_beta, INFINITY},
	    {"schedule.min", o->schedule.min, INFINITY},
	    {"schedule.gamma", o->schedule.gamma, INFINITY},
	};
	if ((unsigned)o->kind >= WEIR_OPTIMIZERS)
		return weir_fail(err, WEIR_E_INVALID, "table %s: optimizer %u is not known", t->name, o->kind);
	if ((unsigned)o->schedule.kind > WEIR_SCHEDULE_EXP_RANGE)
		return weir_fail(err, WEIR_E_INVALID, "table %s: schedule %u is not known", t->name, o->schedule.kind);
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
		if (!(rates[i].value >= 0 && rates[i].value < rates[i].below))
			return weir_fail(err, WEIR_E_INVALID, "table %s: %s is %g, expected a number in [0, %g)", t->name, rates[i].name,
			                 (double)rates[i].value, (double)rates[i].below);
	if ((unsigned)o->decay > WEIR_DECAY_FULL)
		return weir_fail(err, WEIR_E_INVALID, "table %s: decay %u is not known", t->name, o->decay);
	if (o->decay == WEIR_DECAY_FULL && !optimizer_has(o->kind, WEIR_RULE_FULL_DECAY))
		return weir_fail(err, WEIR_E_INVALID, "table %s: full decay is for adam and adamw", t->name);
	if (optimizer_has(o->kind, WEIR_RULE_WINDOW) && o->window == 0)
		return weir_fail(err, WEIR_E_INVALID, "table %s: its optimizer needs a window of at least 1", t->name);
	return WEIR_OK;
}

static weir_status check_eviction(const weir_table_spec *t, weir_error *err)
{
	const weir_admission *a = &t->admission;
	const weir_eviction *e = &t->eviction;
	if ((unsigned)a->kind > WEIR_ADMIT_PROBABILITY)
		return weir_fail(err, WEIR_E_INVALID, "table %s: admission %u is not known", t->name, a->kind);
	if (t->kind == WEIR_DENSE && (a->kind != WEIR_ADMIT_NONE || e->ttl_s || e->min_score))
		return weir_fail(err, WEIR_E_INVALID, "table %s: admission and eviction are for embedding tables", t->name);
	if (a->kind == WEIR_ADMIT_COUNT && a->count == 0)
		return weir_fail(err, WEIR_E_INVALID, "table %s: admission by count 0, expected 1 or more", t->name);
	if (a->kind == WEIR_ADMIT_PROBABILITY && !(a->probability > 0 && a->probability <= 1))
		return weir_fail(err, WEIR_E_INVALID, "table %s: admission with probability %g, expected above 0, at most 1", t->name,
		                 (double)a->probability);
	if (e->min_score && !e->half_life_s)
		return weir_fail(err, WEIR_E_INVALID, "table %s: eviction below score %u needs a half-life", t->name, e->min_score);
	return WEIR_OK;
}

static weir_status check_topk(const weir_table_spec *t, weir_error *err)
{
	const weir_compression *c = &t->push;
	if ((unsigned)c->values >= WEIR_VALUES)
		return weir_fail(err, WEIR_E_INVALID, "table %s: push values %u are not known", t->name, c->values);
	if (!(c->density > 0 && c->density <= WEIR_DENSITY_MAX))
		return weir_fail(err, WEIR_E_INVALID, "table %s: push density %g, expected above 0, at most %g", t->name,
		                 (double)c->density, (double)WEIR_DENSITY_MAX);
	if (!(c->momentum >= 0 && c->momentum < 1))
		return weir_fail(err, WEIR_E_INVALID, "table %s: push momentum %g, expected a number in [0, 1)", t->name,
		                 (double)c->momentum);
	if (!(c->clip >= 0 && isfinite(c->clip)))
		return weir_fail(err, WEIR_E_INVALID, "table %s: push clip %g, expected a number from 0", t->name, (double)c->clip);
	return WEIR_OK;
}

static weir_status check_pull(const weir_table_spec *t, weir_error *err)
{
	const weir_pull_coding *c = &t->pull;
	const bool dense = t->kind == WEIR_DENSE;
	if (!codec_has_use(c->codec, dense ? WEIR_CODES_PULLED_CHUNKS : WEIR_CODES_PULLED_ROWS))
		return weir_fail(err, WEIR_E_INVALID, "table %s: pull codec %u is not for %s tables", t->name, c->codec,
		                 dense ? "dense" : "embedding");
	if (codec_has_use(c->codec, WEIR_CODES_BY_BOOK) && (unsigned)c->book >= WEIR_BOOKS)
		return weir_fail(err, WEIR_E_INVALID, "table %s: code book %u of pulls is not known", t->name, c->book);
	if (c->codec != WEIR_CODEC_TOPK)
		return WEIR_OK;
	if (!values_are_for_pulls(c->values))
		return weir_fail(err, WEIR_E_INVALID, "table %s: pull values %u are not known", t->name, c->values);
	if (!(c->density > 0 && c->density <= WEIR_DENSITY_MAX))
		return weir_fail(err, WEIR_E_INVALID, "table %s: pull density %g, expected above 0, at most %g", t->name,
		                 (double)c->density, (double)WEIR_DENSITY_MAX);
	return WEIR_OK;
}

static weir_status check_codecs(const weir_table_spec *t, weir_error *err)
{
	const weir_compression *c = &t->push;
	if ((unsigned)c->codec >= WEIR_CODECS || (unsigned)t->pull.codec >= WEIR_CODECS)
		return weir_fail(err, WEIR_E_INVALID, "table %s: push codec %u, pull codec %u: unknown", t->name, c->codec,
		                 t->pull.codec);
	const bool has_book = codec_has_use(c->codec, WEIR_CODES_BY_BOOK);
	if (t->kind != WEIR_DENSE && !codec_has_use(c->codec, WEIR_CODES_ROWS))
		return weir_fail(err, WEIR_E_INVALID, "table %s: push codec %u is for dense tables", t->name, c->codec);
	if (codec_feedback(c->codec) == WEIR_FEEDBACK_ALWAYS && !c->feedback)
		return weir_fail(err, WEIR_E_INVALID, "table %s: push codec %u needs error feedback", t->name, c->codec);
	if (has_book && (unsigned)c->book >= WEIR_BOOKS)
		return weir_fail(err, WEIR_E_INVALID, "table %s: code book %u is not known", t->name, c->book);
	if (has_book && c->book == WEIR_BOOK_SEGMENTED && t->kind != WEIR_DENSE)
		return weir_fail(err, WEIR_E_INVALID, "table %s: a segmented code book is for dense tables", t->name);
	if (!(c->rows >= 0 && c->rows < 1) || (c->rows > 0 && t->kind == WEIR_DENSE))
		return weir_fail(err, WEIR_E_INVALID,
		                 "table %s: push rows %g, expected 0 (all), or of an embedding table a share below 1", t->name,
		                 (double)c->rows);
	if ((unsigned)c->lz4 > WEIR_LZ4_AUTO)
		return weir_fail(err, WEIR_E_INVALID, "table %s: push lz4 %u is not known", t->name, c->lz4);
	const weir_status status = c->codec == WEIR_CODEC_TOPK ? check_topk(t, err) : WEIR_OK;
	return status ? status : check_pull(t, err);
}

static weir_status check_mode(const weir_table_spec *t, weir_error *err)
{
	const weir_mode *m = &t->mode;
	if ((unsigned)m->kind > WEIR_SSP || m->backup >= WEIR_WORKERS_MAX)
		return weir_fail(err, WEIR_E_INVALID, "table %s: mode %u with %u backup workers", t->name, m->kind, m->backup);
	if (m->bound > WEIR_SSP_BOUND_MAX || (m->bound && m->kind != WEIR_SSP))
		return weir_fail(err, WEIR_E_INVALID, "table %s: mode %u with bound %u", t->name, m->kind, m->bound);
	if (m->local_steps > WEIR_LOCAL_STEPS_MAX || m->fragments > WEIR_FRAGMENTS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "table %s: rounds of %u batches, at most %u; in %u fragments, at most %u", t->name,
		                 m->local_steps, WEIR_LOCAL_STEPS_MAX, m->fragments, WEIR_FRAGMENTS_MAX);
	if (m->local_steps && t->kind != WEIR_DENSE)
		return weir_fail(err, WEIR_E_INVALID, "table %s: local steps are for dense tables", t->name);
	if (!m->local_steps && (m->fragments || m->local_speed))
		return weir_fail(err, WEIR_E_INVALID, "table %s: fragments and rounds by speed need local steps", t->name);
	if (m->fragments > m->local_steps)
		return weir_fail(err, WEIR_E_INVALID, "table %s: %u fragments in rounds of %u batches", t->name, m->fragments,
		                 m->local_steps);
	if (m->kind == WEIR_SYNC && m->staleness_rate)
		return weir_fail(err, WEIR_E_INVALID, "table %s: a synchronous table has no staleness to set its rate by", t->name);
	return WEIR_OK;
}

weir_status wire_table_check(const weir_table_spec *spec, weir_error *err)
{
	weir_status status = check_name(spec->name, err);
	if (!status)
		status = check_shape(spec, err);
	if (!status)
		status = check_optimizer(spec, err);
	if (!status)
		status = check_eviction(spec, err);
	if (!status)
		status = check_mode(spec, err);
	return status ? status : check_codecs(spec, err);
}
