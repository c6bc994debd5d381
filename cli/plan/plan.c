#include "cli/plan/plan.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/codec_traits.h"
#include "common/job/job_schema.h"

#define MODE_KEY       "tables.dense.mode.kind"
#define WORKERS_KEY    "cluster.workers"
#define SERVERS_KEY    "cluster.servers"
#define EXECUTORS_KEY  "cluster.executors"
#define PARTITIONS_KEY "cluster.partitions"
#define CACHE_KEY      "tables.embedding.pull.cache.memory"

const char *plan_key_name(enum plan_key key)
{
	static const char *const names[PLAN_KEYS] = {[PLAN_KEY_MODE] = MODE_KEY,
	                                             [PLAN_KEY_WORKERS] = WORKERS_KEY,
	                                             [PLAN_KEY_SERVERS] = SERVERS_KEY,
	                                             [PLAN_KEY_EXECUTORS] = EXECUTORS_KEY,
	                                             [PLAN_KEY_CACHE] = CACHE_KEY,
#define KEY(name, key) [PLAN_KEY_LEGS + PLAN_##name] = key,
	                                             PLAN_LEG_MAP(KEY)
#undef KEY
	};
	return names[key];
}

/* --- The site */

/* train.pace: the least that a batch of this worker lasts. Of rotating slowness, its share of the
 * time. */
static double least_batch_s(const struct job *job, uint32_t worker, uint32_t workers)
{
	const double batch = job->train.pace.batch_ms * 1e-3, times = job->train.pace.times;
	switch (job->train.pace.slow) {
	case SLOW_NONE:
		break;
	case SLOW_ONE:
		return worker == 0 ? batch * times : batch;
	case SLOW_ROTATING:
		return batch * (1 + (times - 1) / workers);
	}
	return batch;
}

/* As a trainer takes its share where train.threads is auto; 0: of the cores of all workers here. */
static uint32_t threads_of(const struct job *job, uint32_t cores)
{
	const bool one_machine = strcmp(job->cluster.listen, "auto") == 0;
	return job->train.threads > 0 || one_machine ? job->train.threads : cores;
}

/* Whether a synchronous dense table travels by layers (worker/train/loop/trainer_open.c). */
static bool travels_by_layer(const struct job *job, const struct plan_figures *f)
{
	return job->train.overlap != OVERLAP_OFF && strncmp(job->device, "cuda", 4) != 0 &&
	       weir_chunks((uint64_t)f->dense_elements) > WEIR_LAYERED_CHUNKS;
}

struct plan_site plan_site_of(const struct job *job, const struct plan_figures *f)
{
	const uint32_t cores = (uint32_t)f->cores;
	const bool layers = travels_by_layer(job, f),
	           whole_gradient = job->train.clip_norm > 0 || job->train.not_finite == NOT_FINITE_CLIP;
	const bool dense_waits = job->tables.dense.mode.local_steps == 0 || job->tables.dense.mode.kind == WEIR_SYNC;
	struct plan_site site = {.shared = true,
	                         .rehearsed = 1,
	                         .rate_bits_per_s = (double)job->cluster.network.rate_bits_per_s,
	                         .latency_s = job->cluster.network.latency_ms * 1e-3,
	                         .workers_max = job_asks(job, WORKERS_KEY) ? 2 * cores : job->cluster.workers,
	                         .servers_max = job_asks(job, SERVERS_KEY) ? cores : job->cluster.servers,
	                         .threads = threads_of(job, cores),
	                         .replicas = job->cluster.replicas,
	                         .unit_batches = job->data.unit_batches,
	                         .passes = job->train.passes,
	                         .rows_wait = f->keys > 0 && job->tables.embedding.mode.kind == WEIR_SYNC,
	                         .rows_cached =
	                             job->tables.embedding.mode.kind == WEIR_ASYNC && !job->tables.embedding.mode.staleness_rate,
	                         .pulls_by_layer = layers,
	                         .pushes_by_layer = layers && !whole_gradient && job->tables.embedding.push.rows == 0,
	                         .rounds_wait = dense_waits};
	for (uint32_t i = 0; i < PLAN_MACHINES_MAX; i++) {
		site.worker_speed[i] = site.server_speed[i] = 1;
		site.least_batch_s[i] = least_batch_s(job, i, job->cluster.workers);
	}
	return site;
}

/* --- Settings */

static uint32_t code_of(const struct plan_figures *f, enum plan_leg leg, weir_codec codec)
{
	for (uint32_t i = 0; i < f->codes[leg]; i++)
		if (strcmp(f->legs[leg][i].codec, codec_name(codec)) == 0)
			return i;
	return 0;
}

static uint32_t mode_of(const weir_mode *mode)
{
	if (mode->local_steps > 0)
		return PLAN_LOCAL + mode->local_steps;
	return mode->kind == WEIR_SYNC ? PLAN_SYNC : mode->kind == WEIR_SSP ? PLAN_SSP : PLAN_ASYNC;
}

/* As weir-server takes its share where cluster.executors is auto. */
static uint32_t executors_of(const struct job *job, const struct plan_figures *f)
{
	const uint32_t share = (uint32_t)(f->cores / (job->cluster.servers + job->cluster.workers));
	return job->cluster.executors ? job->cluster.executors : share ? share : 1;
}

struct plan_setting plan_as_written(const struct job *job, const struct plan_figures *f)
{
	const struct job_table *dense = &job->tables.dense, *rows = &job->tables.embedding;
	return (struct plan_setting){.of = {[PLAN_KEY_MODE] = mode_of(&dense->mode),
	                                    [PLAN_KEY_WORKERS] = job->cluster.workers,
	                                    [PLAN_KEY_SERVERS] = job->cluster.servers,
	                                    [PLAN_KEY_EXECUTORS] = executors_of(job, f),
	                                    [PLAN_KEY_CACHE] = rows->cache.memory_bytes > 0,
	                                    [PLAN_KEY_LEGS + PLAN_DENSE_PUSH] = code_of(f, PLAN_DENSE_PUSH, dense->push.codec),
	                                    [PLAN_KEY_LEGS + PLAN_DENSE_PULL] = code_of(f, PLAN_DENSE_PULL, dense->pull.codec),
	                                    [PLAN_KEY_LEGS + PLAN_ROWS_PUSH] = code_of(f, PLAN_ROWS_PUSH, rows->push.codec),
	                                    [PLAN_KEY_LEGS + PLAN_ROWS_PULL] = code_of(f, PLAN_ROWS_PULL, rows->pull.codec)}};
}

/* --- The space */

static void add_value(struct plan_space *space, enum plan_key key, uint32_t value)
{
	for (uint32_t i = 0; i < space->counts[key]; i++)
		if (space->values[key][i] == value)
			return;
	if (space->counts[key] < PLAN_VALUES_MAX)
		space->values[key][space->counts[key]++] = value;
}

static void add_powers(struct plan_space *space, enum plan_key key, uint32_t most)
{
	for (uint32_t n = 1; n <= most; n *= 2)
		add_value(space, key, n);
	add_value(space, key, most);
}

/* A file with rounds of its own keeps its optimizers: only the length of rounds may change, and not
 * if fragments or overlap divide them. */
static void add_modes(struct plan_space *space, const struct job *job)
{
	static const uint32_t rounds[] = {4, 16, 64};
	const struct job_table *t = &job->tables.dense;
	const bool local = t->mode.local_steps > 0, divided = t->mode.fragments > 1 || t->local.overlap > 0;
	for (uint32_t mode = PLAN_ASYNC; mode < PLAN_LOCAL && !local; mode++)
		add_value(space, PLAN_KEY_MODE, mode);
	for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++)
		if (rounds[i] <= job->data.unit_batches && t->push.momentum == 0 && !(local && divided))
			add_value(space, PLAN_KEY_MODE, PLAN_LOCAL + rounds[i]);
}

void plan_space_of(const struct job *job, const struct plan_figures *f, const struct plan_site *site, enum plan_freedom freedom,
                   struct plan_space *out)
{
	const struct plan_setting written = plan_as_written(job, f);
	const bool all = freedom == PLAN_ALL, operation = freedom >= PLAN_OPERATION;
	*out = (struct plan_space){0};
	for (enum plan_key k = 0; k < PLAN_KEYS; k++)
		add_value(out, k, written.of[k]);
	if (all || job_asks(job, MODE_KEY))
		add_modes(out, job);
	if (all || job_asks(job, WORKERS_KEY))
		add_powers(out, PLAN_KEY_WORKERS, site->workers_max);
	if (operation || job_asks(job, SERVERS_KEY))
		add_powers(out, PLAN_KEY_SERVERS, site->servers_max);
	if ((operation || job->asks.count > 0) && job->cluster.executors == 0)
		add_powers(out, PLAN_KEY_EXECUTORS, (uint32_t)(site->shared ? f->cores : site->server_cores));
	if ((all || job_asks(job, CACHE_KEY)) && f->keys > 0) {
		add_value(out, PLAN_KEY_CACHE, 0);
		add_value(out, PLAN_KEY_CACHE, 1);
	}
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++)
		for (uint32_t i = 0; i < f->codes[leg] && (all || job_asks(job, plan_key_name(PLAN_KEY_LEGS + leg))); i++)
			add_value(out, PLAN_KEY_LEGS + leg, i);
}

uint32_t plan_partitions(const struct plan_setting *s)
{
	uint32_t partitions = 16;
	while (partitions < 4 * s->of[PLAN_KEY_SERVERS] * s->of[PLAN_KEY_EXECUTORS] && partitions < 256)
		partitions *= 2;
	return partitions;
}

/* --- Back to the job file */

WEIR_PRINTF(3, 4)
static void add_set(struct answers *out, const char *key, const char *format, ...)
{
	va_list list;
	assert(out->count < ANSWERS_MAX);
	struct answer *a = &out->items[out->count++];
	a->key = key;
	va_start(list, format);
	vsnprintf(a->set, sizeof a->set, format, list);
	va_end(list);
}

static void append(char *out, const char *format, const char *name, const char *value)
{
	const size_t used = strlen(out);
	snprintf(out + used, ANSWER_BYTES - used, format, name, value);
}

/* The dense table's optimizer as the inner one of local steps: "kind: adam, lr: 0.001, ...,
 * schedule: {kind: cosine, ...}". */
static void write_inner(const struct job *job, char out[ANSWER_BYTES])
{
	static const char prefix[] = "tables.dense.optimizer.", schedule[] = "schedule.";
	char value[64];
	uint32_t count;
	const struct key *keys = job_schema(&count);
	bool inside = false;
	for (uint32_t i = 0; i < count; i++) {
		if (strncmp(keys[i].path, prefix, strlen(prefix)) != 0)
			continue;
		const char *name = keys[i].path + strlen(prefix), *comma = *out ? ", " : "";
		const bool nested = strncmp(name, schedule, strlen(schedule)) == 0;
		job_key_text(job, &keys[i], value, sizeof value);
		append(out, nested && !inside ? "%sschedule: {" : "%s", nested && inside ? ", " : comma, "");
		append(out, "%s: %s", nested ? name + strlen(schedule) : name, value);
		inside = nested;
	}
	append(out, "%s%s", inside ? "}" : "", "");
}

/* Local steps take the table's optimizer to the worker, and their rounds are averaged: the mean of
 * the workers' differences, taken whole (local SGD; Stich 2019, arXiv 1805.09767). */
static void add_local(struct answers *out, const struct job *job, uint32_t steps)
{
	char inner[ANSWER_BYTES] = "";
	write_inner(job, inner);
	add_set(out, MODE_KEY, "tables.dense.mode={kind: local, steps: %u, rounds: sync, inner: {%.900s}}", steps, inner);
	add_set(out, MODE_KEY,
	        "tables.dense.optimizer={kind: sgd, lr: 1, weight_decay: 0, l1: 0, l2: 0, decay: lazy, schedule: {kind: constant, "
	        "warmup: 0, total: 0}}");
}

static void add_mode(struct answers *out, const struct job *job, uint32_t mode)
{
	if (plan_mode_steps(mode) > 0 && job->tables.dense.mode.local_steps > 0)
		add_set(out, MODE_KEY, "tables.dense.mode.steps=%u", plan_mode_steps(mode));
	else if (plan_mode_steps(mode) > 0)
		add_local(out, job, plan_mode_steps(mode));
	else if (mode == PLAN_SSP)
		add_set(out, MODE_KEY, "tables.dense.mode={kind: ssp, bound: %u}", PLAN_SSP_BOUND);
	else
		add_set(out, MODE_KEY, MODE_KEY "=%s", mode == PLAN_SYNC ? "sync" : "async");
}

/* A number that is asked, or differs from the job as written. */
static void add_number(struct answers *out, const struct job *job, const struct plan_setting *written,
                       const struct plan_setting *s, enum plan_key key)
{
	if (job_asks(job, plan_key_name(key)) || s->of[key] != written->of[key])
		add_set(out, plan_key_name(key), "%s=%u", plan_key_name(key), s->of[key]);
}

/* Another codec than the file's, whose own settings are reset: "tables.dense.push={codec: int8,
 * density: 0.01, ...}". */
static void add_codec(struct answers *out, const char *name, const char *codec)
{
	static const char *const own[] = {"density", "book", "momentum", "warmup", "clip", "feedback", "every"};
	char path[JOB_KEY_BYTES_MAX], rest[ANSWER_BYTES] = "";
	const int map = (int)(strrchr(name, '.') - name);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		snprintf(path, sizeof path, "%.*s.%s", map, name, own[i]);
		const struct key *key = job_schema_find(path);
		if (key)
			append(rest, ", %s: %s", own[i], key->fallback);
	}
	add_set(out, name, "%.*s={codec: %s%.900s}", map, name, codec, rest);
}

/* Room for twice the rows, in a power of two of MiB. */
static void add_cache(struct answers *out, const struct plan_figures *f, bool on)
{
	uint64_t mib = 1;
	while (on && (double)(mib << 20) < 2 * f->cache_bytes)
		mib *= 2;
	if (on)
		add_set(out, CACHE_KEY, CACHE_KEY "=%lluMiB", (unsigned long long)mib);
	else
		add_set(out, CACHE_KEY, CACHE_KEY "=off");
}

void plan_answers(const struct job *job, const struct plan_figures *f, const struct plan_found *p, struct answers *out)
{
	const struct plan_setting written = plan_as_written(job, f), *s = &p->setting;
	*out = (struct answers){.samples_per_s = p->bill.samples_per_s};
	add_number(out, job, &written, s, PLAN_KEY_SERVERS);
	add_number(out, job, &written, s, PLAN_KEY_WORKERS);
	if (job_asks(job, PARTITIONS_KEY))
		add_set(out, PARTITIONS_KEY, PARTITIONS_KEY "=%u", plan_partitions(s));
	if (job->cluster.executors == 0 && (job->asks.count > 0 || s->of[PLAN_KEY_EXECUTORS] != written.of[PLAN_KEY_EXECUTORS]))
		add_set(out, EXECUTORS_KEY, EXECUTORS_KEY "=%u", s->of[PLAN_KEY_EXECUTORS]);
	if (job_asks(job, MODE_KEY) || s->of[PLAN_KEY_MODE] != written.of[PLAN_KEY_MODE])
		add_mode(out, job, s->of[PLAN_KEY_MODE]);
	if (job_asks(job, CACHE_KEY) || s->of[PLAN_KEY_CACHE] != written.of[PLAN_KEY_CACHE])
		add_cache(out, f, s->of[PLAN_KEY_CACHE]);
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++) {
		const enum plan_key key = PLAN_KEY_LEGS + leg;
		const char *name = plan_key_name(key);
		if (job_asks(job, name))
			add_set(out, name, "%s=%s", name, f->codes[leg] > 0 ? f->legs[leg][s->of[key]].codec : "fp32");
		else if (f->codes[leg] > 0 && s->of[key] != written.of[key])
			add_codec(out, name, f->legs[leg][s->of[key]].codec);
	}
}
