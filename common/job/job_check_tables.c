/* Checks of the keys of tables. Keys that a choice leaves unused get a fixed value, so that equal
 * tables have equal descriptions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/codec_traits.h"
#include "common/base/optimizer_traits.h"
#include "common/job/job_read.h"

static weir_status check_schedule(struct reading *r, const char *optimizer, const weir_schedule *s)
{
	char path[JOB_KEY_BYTES_MAX];
	bool cyclical =
	    s->kind == WEIR_SCHEDULE_TRIANGULAR || s->kind == WEIR_SCHEDULE_TRIANGULAR2 || s->kind == WEIR_SCHEDULE_EXP_RANGE;
	if ((cyclical || s->kind == WEIR_SCHEDULE_STEP) && s->period == 0) {
		snprintf(path, sizeof path, "tables.%s.schedule.period", optimizer);
		FAIL(r, path, WEIR_E_INVALID, "is 0; this schedule.kind needs a period: expected a whole number from 1 (steps)");
	}
	if (s->kind == WEIR_SCHEDULE_WSD && s->total > 0 && s->decay + s->warmup > s->total) {
		snprintf(path, sizeof path, "tables.%s.schedule.decay", optimizer);
		FAIL(r, path, WEIR_E_INVALID, "is %llu; expected warmup + decay within total: %llu (steps)", (unsigned long long)s->decay,
		     (unsigned long long)s->total);
	}
	return WEIR_OK;
}

static weir_status check_push(struct reading *r, const char *table, const weir_compression *c, bool dense)
{
	char path[JOB_KEY_BYTES_MAX];
	const bool topk = c->codec == WEIR_CODEC_TOPK, has_book = codec_has_use(c->codec, WEIR_CODES_BY_BOOK);
	snprintf(path, sizeof path, "tables.%s.push.codec", table);
	if (!dense && !codec_has_use(c->codec, WEIR_CODES_ROWS))
		FAIL(r, path, WEIR_E_INVALID,
		     "is %s, which is for dense tables: rows of embeddings are few already; expected int8, for example",
		     codec_name(c->codec));
	const struct {
		const char *key;
		double value, unset;
	} of_topk[] = {{"density", (double)c->density, (double)0.01f},
	               {"momentum", (double)c->momentum, 0},
	               {"warmup", c->warmup, 0},
	               {"clip", (double)c->clip, 0}};
	for (size_t i = 0; i < sizeof of_topk / sizeof *of_topk && !topk; i++) {
		snprintf(path, sizeof path, "tables.%s.push.%s", table, of_topk[i].key);
		if (of_topk[i].value != of_topk[i].unset)
			FAIL(r, path, WEIR_E_INVALID, "is %g, but %s", of_topk[i].value,
			     dense ? "push.codec is not topk; expected push.codec: topk"
			           : "topk is for dense tables; expected none, or push.rows, the share of a push's rows that it brings");
	}
	snprintf(path, sizeof path, "tables.%s.push.rows", table);
	if (c->rows == 0)
		FAIL(r, path, WEIR_E_INVALID, "is 0, which would push nothing; expected a number above 0, up to 1");
	if (dense && c->rows != 1)
		FAIL(r, path, WEIR_E_INVALID, "is %g; it is a share of an embedding table's rows: expected 1", (double)c->rows);
	snprintf(path, sizeof path, "tables.%s.push.book", table);
	if (!has_book && c->book != WEIR_BOOK_NF4)
		FAIL(r, path, WEIR_E_INVALID, "is %s, but push.codec is not int4; expected push.codec: int4",
		     c->book == WEIR_BOOK_LOG ? "log" : "segmented");
	if (!dense && has_book && c->book == WEIR_BOOK_SEGMENTED)
		FAIL(r, path, WEIR_E_INVALID, "is segmented, which is fitted to dense tables; expected nf4 or log");
	snprintf(path, sizeof path, "tables.%s.push.density", table);
	if (topk && c->density == 0)
		FAIL(r, path, WEIR_E_INVALID, "is 0, which would push nothing; expected a number above 0, up to 0.25");
	snprintf(path, sizeof path, "tables.%s.push.feedback", table);
	if (!dense && !c->feedback)
		FAIL(r, path, WEIR_E_INVALID, "is false; embedding tables have none: expected no such key");
	if (codec_feedback(c->codec) == WEIR_FEEDBACK_ALWAYS && !c->feedback)
		FAIL(r, path, WEIR_E_INVALID, "is false; %s without error feedback would lose most of the gradient: expected true",
		     codec_name(c->codec));
	return WEIR_OK;
}

/* Sets the fields that the codec does not use to 0, so that tables with equal coding have equal
 * descriptions. Works in place: jobs are compared as bytes. */
static void settle_push(weir_compression *c, bool dense, uint32_t workers)
{
	c->feedback = c->feedback && dense && codec_feedback(c->codec) != WEIR_FEEDBACK_NEVER;
	c->rows = c->rows < 1 ? c->rows : 0;
	if (!codec_has_use(c->codec, WEIR_CODES_BY_BOOK))
		c->book = WEIR_BOOK_NF4;
	/* the norm of a sum of n independent gradients grows with sqrt(n) */
	c->clip /= sqrtf((float)workers);
	if (c->codec == WEIR_CODEC_TOPK)
		return;
	c->values = WEIR_VALUES_FP32;
	c->density = c->momentum = c->clip = 0;
	c->warmup = 0;
}

static weir_status check_pull(struct reading *r, const char *table, const weir_pull_coding *c, bool dense)
{
	char path[JOB_KEY_BYTES_MAX], names[CODEC_NAMES_BYTES];
	const enum weir_codec_use use = dense ? WEIR_CODES_PULLED_CHUNKS : WEIR_CODES_PULLED_ROWS;
	snprintf(path, sizeof path, "tables.%s.pull.codec", table);
	codec_names(use, names);
	if (!codec_has_use(c->codec, use))
		FAIL(r, path, WEIR_E_INVALID, "is %s, which %s; expected one of %s", codec_name(c->codec),
		     codec_has_use(c->codec, WEIR_CODES_PULLED_CHUNKS) ? "codes differences, and those are of dense tables"
		                                                       : "codes pushes only",
		     names);
	snprintf(path, sizeof path, "tables.%s.pull.values", table);
	if (!values_are_for_pulls(c->values))
		FAIL(r, path, WEIR_E_INVALID, "is a format of pushes only: its differences would not end; expected bf16, for example");
	snprintf(path, sizeof path, "tables.%s.pull.density", table);
	if (c->codec == WEIR_CODEC_TOPK && c->density == 0)
		FAIL(r, path, WEIR_E_INVALID, "is 0, which would bring nothing; expected a number above 0, up to 0.25");
	if (c->codec != WEIR_CODEC_TOPK && c->density != 0.02f)
		FAIL(r, path, WEIR_E_INVALID, "is %g, but pull.codec is not topk; expected pull.codec: topk", (double)c->density);
	snprintf(path, sizeof path, "tables.%s.pull.every", table);
	if (c->every > 1 && (!dense || c->codec == WEIR_CODEC_FP32))
		FAIL(r, path, WEIR_E_INVALID, "is %u, but %s; expected 1", c->every,
		     dense ? "pull.codec is fp32" : "rows of embeddings come as they are");
	return WEIR_OK;
}

static weir_pull_coding settled_pull(const weir_pull_coding *c, bool dense)
{
	weir_pull_coding out = {.codec = c->codec};
	if (!dense || c->codec == WEIR_CODEC_FP32)
		return out;
	out.every = c->every;
	if (codec_has_use(c->codec, WEIR_CODES_BY_BOOK))
		out.book = c->book;
	if (c->codec == WEIR_CODEC_TOPK) {
		out.values = c->values;
		out.density = c->density;
	}
	return out;
}

/* --- Modes */

/* Keys of the file that the mode does not use. */
static weir_status check_mode_keys(struct reading *r, const char *table, const struct job_table *t, bool local)
{
	const weir_mode *m = &t->mode;
	const struct job_local *l = &t->local;
	const struct {
		const char *key;
		bool set;
	} of_local[] = {{"steps", m->local_steps != 0},
	                {"rounds", l->rounds != WEIR_SYNC},
	                {"fragments", m->fragments != 1},
	                {"overlap", l->overlap != 0},
	                {"merge", l->merge != 1},
	                {"by_speed", m->local_speed},
	                {"inner.kind", l->inner.kind != WEIR_OPT_ADAMW}};
	char path[JOB_KEY_BYTES_MAX];
	snprintf(path, sizeof path, "tables.%s.mode.backup", table);
	if (m->backup > 0 && m->kind != WEIR_SYNC)
		FAIL(r, path, WEIR_E_INVALID, "is %u, but mode.kind is not sync; expected 0", m->backup);
	snprintf(path, sizeof path, "tables.%s.mode.bound", table);
	if (m->bound > 0 && m->kind != WEIR_SSP)
		FAIL(r, path, WEIR_E_INVALID, "is %u, but mode.kind is not ssp; expected 0", m->bound);
	for (size_t i = 0; i < sizeof of_local / sizeof *of_local && !local && strcmp(table, "dense") == 0; i++) {
		snprintf(path, sizeof path, "tables.dense.mode.%s", of_local[i].key);
		if (of_local[i].set)
			FAIL(r, path, WEIR_E_INVALID, "is given, but workers take no steps of their own; expected mode.kind: local");
	}
	return WEIR_OK;
}

static weir_status check_local(struct reading *r, const struct job *job)
{
	const struct job_table *t = &job->tables.dense;
	const weir_mode *m = &t->mode;
	if (m->local_steps == 0)
		return FAIL(r, "tables.dense.mode.steps", WEIR_E_INVALID,
		            "is 0; mode.kind: local needs to know how many batches a round has: expected a whole number from 1");
	if (m->local_steps > job->data.unit_batches)
		return FAIL(r, "tables.dense.mode.steps", WEIR_E_INVALID,
		            "is %u; a round ends with its work unit: expected at most data.unit_batches: %u", m->local_steps,
		            job->data.unit_batches);
	if (m->fragments > m->local_steps)
		return FAIL(r, "tables.dense.mode.fragments", WEIR_E_INVALID, "is %u; expected at most mode.steps: %u", m->fragments,
		            m->local_steps);
	if (t->local.overlap >= m->local_steps / m->fragments)
		return FAIL(r, "tables.dense.mode.overlap", WEIR_E_INVALID,
		            "is %u; a push is to be back before the next one: expected less than mode.steps / mode.fragments: %u",
		            t->local.overlap, m->local_steps / m->fragments);
	if (t->local.merge == 0)
		return FAIL(r, "tables.dense.mode.merge", WEIR_E_INVALID,
		            "is 0; workers would never take anything in: expected a number above 0, up to 1");
	if (t->push.momentum != 0)
		return FAIL(
		    r, "tables.dense.push.momentum", WEIR_E_INVALID,
		    "is %g, but with mode.kind: local no gradients are pushed; expected 0: the outer optimizer has momentum of its own",
		    (double)t->push.momentum);
	return check_schedule(r, "dense.mode.inner", &t->local.inner.schedule);
}

/* Converts the mode to the form of table descriptions; clears the fields that the mode does not
 * use. */
static weir_status settle_mode(struct reading *r, const char *table, struct job_table *t, const struct job *job)
{
	char path[JOB_KEY_BYTES_MAX];
	const bool local = (unsigned)t->mode.kind == JOB_MODE_LOCAL;
	if (local)
		t->mode.kind = t->local.rounds;
	(void)check_mode_keys(r, table, t, local);
	snprintf(path, sizeof path, "tables.%s.mode.backup", table);
	if (t->mode.backup >= job->cluster.workers)
		FAIL(r, path, WEIR_E_INVALID, "is %u; expected fewer than cluster.workers: %u", t->mode.backup, job->cluster.workers);
	snprintf(path, sizeof path, "tables.%s.mode.staleness_rate", table);
	if (t->mode.staleness_rate && t->mode.kind == WEIR_SYNC)
		FAIL(r, path, WEIR_E_INVALID, "is true, but nothing is stale in a synchronous table; expected false");
	snprintf(path, sizeof path, "tables.%s.mode.kind", table);
	if (t->mode.kind == WEIR_SSP && job->cluster.ack < JOB_ACK_REPLICAS)
		FAIL(r, path, WEIR_E_INVALID,
		     "is ssp, which counts pushes that are applied; expected cluster.ack: replicas or disk with it");
	if (local)
		return check_local(r, job);
	t->mode.local_steps = t->mode.fragments = 0;
	t->mode.local_speed = false;
	t->local = (struct job_local){0};
	return WEIR_OK;
}

/* --- Tables */

static weir_status check_table(struct reading *r, const char *table, struct job_table *t, const struct job *job)
{
	char path[JOB_KEY_BYTES_MAX];
	(void)settle_mode(r, table, t, job);
	snprintf(path, sizeof path, "tables.%s.optimizer.decay", table);
	if (t->optimizer.decay == WEIR_DECAY_FULL && !optimizer_has(t->optimizer.kind, WEIR_RULE_FULL_DECAY))
		FAIL(r, path, WEIR_E_INVALID, "is full, but optimizer.kind is neither adam nor adamw; expected lazy");
	snprintf(path, sizeof path, "%s.optimizer", table);
	return check_schedule(r, path, &t->optimizer.schedule);
}

static weir_status check_admission(struct reading *r, const weir_admission *a)
{
	if (a->kind == WEIR_ADMIT_PROBABILITY && a->probability == 0)
		FAIL(r, "tables.embedding.admission.probability", WEIR_E_INVALID,
		     "is 0, which would admit nothing; expected a number above 0, up to 1");
	if (a->kind != WEIR_ADMIT_COUNT && a->count > 1)
		FAIL(r, "tables.embedding.admission.count", WEIR_E_INVALID,
		     "is %u, but admission.kind is not count; expected admission.kind: count", a->count);
	if (a->kind != WEIR_ADMIT_PROBABILITY && a->probability < 1)
		FAIL(r, "tables.embedding.admission.probability", WEIR_E_INVALID,
		     "is %g, but admission.kind is not probability; expected admission.kind: probability", (double)a->probability);
	return WEIR_OK;
}

/* Rows as old as the cache allows suit only tables that promise nothing stricter. */
static weir_status check_cache(struct reading *r, const struct job *job)
{
	const struct job_table *t = &job->tables.embedding;
	const char *memory = "tables.embedding.pull.cache.memory",
	           *others[] = {"tables.embedding.pull.cache.max_age", "tables.embedding.pull.cache.max_uses"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (job_raw(r, others[i])->given && !job_raw(r, memory)->given)
			return FAIL(r, others[i], WEIR_E_INVALID,
			            "is given, but pull.cache.memory is off; expected pull.cache.memory: 256MiB, for example");
	if (t->cache.memory_bytes == 0)
		return WEIR_OK;
	if (job_is_language(job))
		return FAIL(r, memory, WEIR_E_INVALID,
		            "is given, but of a language model all weights are in the dense table; expected off");
	if (t->mode.kind != WEIR_ASYNC)
		return FAIL(
		    r, memory, WEIR_E_INVALID,
		    "is given, but tables.embedding.mode.kind is %s, which says how old what is read may be: rows in a cache are older; "
		    "expected off, or mode.kind: async",
		    t->mode.kind == WEIR_SYNC ? "sync" : "ssp");
	if (t->mode.staleness_rate)
		return FAIL(
		    r, memory, WEIR_E_INVALID,
		    "is given, but tables.embedding.mode.staleness_rate is true: how old rows in a cache are servers do not know; "
		    "expected off, or mode.staleness_rate: false");
	return WEIR_OK;
}

weir_status job_check_tables(struct reading *r, struct job *job)
{
	const weir_mode *embedding = &job->tables.embedding.mode, *dense = &job->tables.dense.mode;
	(void)check_table(r, "embedding", &job->tables.embedding, job);
	(void)check_table(r, "dense", &job->tables.dense, job);
	(void)check_admission(r, &job->tables.embedding.admission);
	(void)check_push(r, "embedding", &job->tables.embedding.push, false);
	(void)check_push(r, "dense", &job->tables.dense.push, true);
	(void)check_pull(r, "embedding", &job->tables.embedding.pull, false);
	(void)check_pull(r, "dense", &job->tables.dense.pull, true);
	(void)check_cache(r, job);
	if (job->tables.embedding.cache.memory_bytes == 0)
		job->tables.embedding.cache = (struct job_row_cache){0};
	settle_push(&job->tables.embedding.push, false, job->cluster.workers);
	settle_push(&job->tables.dense.push, true, job->cluster.workers);
	job->tables.embedding.pull = settled_pull(&job->tables.embedding.pull, false);
	job->tables.dense.pull = settled_pull(&job->tables.dense.pull, true);
	if (!weir_modes_agree(embedding, dense))
		FAIL(r, "tables.embedding.mode.kind", WEIR_E_INVALID,
		     "is %s, and tables.dense.mode makes batches wait in another way (%s%s): workers would wait for each other for ever; "
		     "expected async, or the same of both%s",
		     embedding->kind == WEIR_SYNC ? "sync" : "ssp", dense->local_steps ? "local, rounds: " : "",
		     dense->kind == WEIR_SYNC ? "sync" : "ssp",
		     dense->local_steps > 1 ? ", for with local rounds rows of embeddings are async" : "");
	if (embedding->kind == WEIR_SYNC && dense->kind == WEIR_SYNC && embedding->backup != dense->backup)
		FAIL(r, "tables.dense.mode.backup", WEIR_E_INVALID, "is %u; expected that of tables.embedding.mode.backup: %u",
		     dense->backup, embedding->backup);
	return WEIR_OK;
}
