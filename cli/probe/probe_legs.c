/* What pushes and pulls of a batch cost, in each codec: on the wire, in the worker, on a server.
 * Each codec has tables of its own on a server that does nothing else. */
#include <stdio.h>
#include <string.h>

#include "cli/probe/probe_internal.h"
#include "common/base/codec_traits.h"

enum { EXCHANGES_LEAST = 3, ROUND_TRIPS = 200, SMALL_ELEMENTS = 16 };

/* The spent time of both ends, and bytes. */
struct spent {
	double caller_s, process_s, server_s, bytes;
};

struct legs {
	struct scratch_server server;
	struct probe_data *data;
	struct probe_computer *computer;
	uint32_t tables; /* registered so far: gives them names */
};

static struct spent spent_now(const struct legs *l, bool up)
{
	weir_stats stats = {0};
	weir_get_stats(l->server.client, &stats);
	return (struct spent){.caller_s = probe_thread_s(),
	                      .process_s = probe_process_s(),
	                      .server_s = scratch_server_cpu_s(&l->server),
	                      .bytes = (double)(up ? stats.bytes_pushed : stats.bytes_pulled)};
}

static void note_code(struct plan_code *out, const struct spent *from, const struct spent *to, double exchanges)
{
	out->caller_s = (to->caller_s - from->caller_s) / exchanges;
	out->client_s = (to->process_s - from->process_s) / exchanges - out->caller_s;
	out->server_s = (to->server_s - from->server_s) / exchanges;
	out->bytes = (to->bytes - from->bytes) / exchanges;
}

/* Registers a table of the model, as the job now describes it, under a name of its own. */
static weir_status add_table(struct legs *l, enum model_table t, bool plain_optimizer, uint32_t *id, weir_error *err)
{
	weir_table_spec spec = model_table_spec(l->computer->model, t);
	snprintf(spec.name, sizeof spec.name, "probe-%u", l->tables++);
	spec.mode = (weir_mode){.kind = WEIR_ASYNC};
	spec.optimizer.schedule = (weir_schedule){0};
	spec.optimizer.lr = 1e-6f; /* the same gradients again and again must not diverge */
	if (plain_optimizer)
		spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_SGD, .lr = 1e-6f};
	return weir_table_register(l->server.client, &spec, id, err);
}

/* --- Exchanges of a batch: push, or pull, or one after the other */

struct exchange {
	uint32_t ids[MODEL_TABLES];
	bool keyed; /* the tables of rows; else the dense one */
	bool pushes, pulls;
};

static size_t fill_items(const struct legs *l, const struct exchange *x, struct minibatch *m, weir_push_item *push,
                         weir_pull_item *pull)
{
	size_t count = 0;
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		if (!model_has(l->computer->model, t) || t == MODEL_STATISTICS || model_table_is_keyed(t) != x->keyed)
			continue;
		const struct used_rows used = model_table_rows(l->computer->model, &m->input, t);
		const uint64_t *keys = x->keyed ? m->keys + used.first : NULL;
		const size_t rows = x->keyed ? used.count : 0;
		push[count] = (weir_push_item){.table = x->ids[t], .keys = keys, .rows = rows, .values = m->output.gradients[t]};
		pull[count++] = (weir_pull_item){.table = x->ids[t], .keys = keys, .rows = rows, .values = m->parameters[t]};
	}
	return count;
}

static weir_status exchange_once(struct legs *l, const struct exchange *x, uint32_t i, weir_error *err)
{
	weir_push_item push[MODEL_TABLES];
	weir_pull_item pull[MODEL_TABLES];
	weir_client *client = l->server.client;
	weir_batch id;
	weir_ticket ticket;
	const size_t count = fill_items(l, x, &l->computer->batches[i % l->computer->count], push, pull);
	weir_status status = scratch_server_batch(&l->server, &id, err);
	if (status == WEIR_OK && x->pulls)
		status = weir_pull(client, &id, pull, count, NULL, NULL, &ticket, err);
	if (status == WEIR_OK && x->pulls)
		status = weir_wait(client, ticket, -1, err);
	if (status == WEIR_OK && !x->pushes)
		return weir_leave_out(client, &id, err);
	if (status == WEIR_OK)
		status = weir_push(client, &id, push, count, NULL, NULL, NULL, &ticket, err);
	return status == WEIR_OK ? weir_wait(client, ticket, -1, err) : status;
}

/* Each batch once without counting, then for a slice of time. */
static weir_status measure(struct legs *l, const struct exchange *x, bool up, struct plan_code *out, weir_error *err)
{
	struct exchange first = *x; /* rows that were never pushed cost servers more, and fewer bytes */
	weir_status status = WEIR_OK;
	first.pushes = true;
	for (uint32_t i = 0; i < l->computer->count && status == WEIR_OK; i++)
		status = exchange_once(l, &first, i, err);
	const struct spent from = spent_now(l, up);
	const double until = probe_now_s() + PROBE_SLICE_S;
	uint32_t n = 0;
	for (; status == WEIR_OK && (n < EXCHANGES_LEAST || probe_now_s() < until); n++)
		status = exchange_once(l, x, n, err);
	const struct spent to = spent_now(l, up);
	if (status == WEIR_OK)
		note_code(out, &from, &to, n);
	return status;
}

static double at_least_0(double x)
{
	return x > 0 ? x : 0;
}

/* A pull is measured between pushes, as differences need them; `push` is what these cost. */
static void subtract(struct plan_code *pull, const struct plan_code *push)
{
	pull->caller_s = at_least_0(pull->caller_s - push->caller_s);
	pull->client_s = at_least_0(pull->client_s - push->client_s);
	pull->server_s = at_least_0(pull->server_s - push->server_s);
}

/* --- Codecs */

/* The candidates; the job's own codec is one, too, with its own settings. */
static const weir_codec candidates[PLAN_LEGS][6] = {
    [PLAN_DENSE_PUSH] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16, WEIR_CODEC_FP16, WEIR_CODEC_INT8, WEIR_CODEC_INT4, WEIR_CODEC_INT2},
    [PLAN_DENSE_PULL] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16, WEIR_CODEC_INT8, WEIR_CODEC_INT4},
    [PLAN_ROWS_PUSH] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16, WEIR_CODEC_INT8, WEIR_CODEC_INT4},
    [PLAN_ROWS_PULL] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16, WEIR_CODEC_INT8}};

static void set_push(weir_compression *to, weir_codec codec, bool dense)
{
	if (to->codec == codec)
		return;
	*to = (weir_compression){.codec = codec, .feedback = dense && codec_feedback(codec) != WEIR_FEEDBACK_NEVER, .lz4 = to->lz4};
}

static void set_pull(weir_pull_coding *to, weir_codec codec, bool dense)
{
	if (to->codec == codec)
		return;
	*to = (weir_pull_coding){.codec = codec, .every = dense && codec != WEIR_CODEC_FP32};
}

/* Writes the codecs of a leg, first the job's own, and returns their number. */
static uint32_t codecs_of(enum plan_leg leg, weir_codec own, weir_codec out[PLAN_CODES_MAX])
{
	uint32_t count = 0;
	out[count++] = own;
	for (uint32_t i = 0; i < sizeof candidates[leg] / sizeof *candidates[leg]; i++)
		if (candidates[leg][i] != own && (candidates[leg][i] != WEIR_CODEC_FP32 || i == 0))
			out[count++] = candidates[leg][i];
	return count;
}

static weir_status register_tables(struct legs *l, struct exchange *x, bool plain_optimizer, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (enum model_table t = 0; t < MODEL_TABLES && status == WEIR_OK; t++)
		if (model_has(l->computer->model, t) && t != MODEL_STATISTICS && model_table_is_keyed(t) == x->keyed)
			status = add_table(l, t, plain_optimizer, &x->ids[t], err);
	return status;
}

/* A pull of rows names each key in each table. */
static double asked_bytes(const struct legs *l)
{
	const struct model *model = l->computer->model;
	double keys = 0;
	for (uint32_t i = 0; i < l->computer->count; i++)
		for (enum model_table t = 0; t < MODEL_TABLES; t++)
			if (model_table_is_keyed(t) && model_has(model, t))
				keys += (double)model_table_rows(model, &l->computer->batches[i].input, t).count / l->computer->count;
	return keys * sizeof(uint64_t);
}

/* Measures the pushes, then the pulls, of one kind of table. */
static weir_status measure_kind(struct legs *l, bool keyed, struct plan_figures *out, weir_error *err)
{
	struct job_table *table = keyed ? &l->data->job->tables.embedding : &l->data->job->tables.dense;
	const enum plan_leg push = keyed ? PLAN_ROWS_PUSH : PLAN_DENSE_PUSH, pull = keyed ? PLAN_ROWS_PULL : PLAN_DENSE_PULL;
	const weir_compression own_push = table->push;
	const weir_pull_coding own_pull = table->pull;
	weir_codec codecs[PLAN_CODES_MAX];
	weir_status status = WEIR_OK;
	uint32_t count = codecs_of(push, own_push.codec, codecs);
	set_pull(&table->pull, WEIR_CODEC_FP32, !keyed);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		struct exchange x = {.keyed = keyed, .pushes = true};
		struct plan_code *code = &out->legs[push][out->codes[push]++];
		table->push = own_push;
		set_push(&table->push, codecs[i], !keyed);
		snprintf(code->codec, sizeof code->codec, "%s", codec_name(codecs[i]));
		status = register_tables(l, &x, false, err);
		if (status == WEIR_OK)
			status = measure(l, &x, true, code, err);
	}
	count = codecs_of(pull, own_pull.codec, codecs);
	table->push = own_push;
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		struct exchange x = {.keyed = keyed, .pulls = true, .pushes = !keyed};
		struct plan_code *code = &out->legs[pull][out->codes[pull]++];
		table->pull = own_pull;
		set_pull(&table->pull, codecs[i], !keyed);
		snprintf(code->codec, sizeof code->codec, "%s", codec_name(codecs[i]));
		status = register_tables(l, &x, false, err);
		if (status == WEIR_OK)
			status = measure(l, &x, false, code, err);
		if (status == WEIR_OK && x.pushes)
			subtract(code, &out->legs[push][0]);
		if (keyed)
			code->asked_bytes = asked_bytes(l);
	}
	table->pull = own_pull;
	return status;
}

/* --- The rest */

/* How much less SGD costs the servers than the job's own rule for the dense table. */
static weir_status measure_outer(struct legs *l, struct plan_figures *out, weir_error *err)
{
	struct exchange x = {.pushes = true};
	struct plan_code code;
	if (l->data->job->tables.dense.mode.local_steps > 0) /* it is measured with its outer rule */
		return WEIR_OK;
	weir_status status = register_tables(l, &x, true, err);
	if (status == WEIR_OK)
		status = measure(l, &x, true, &code, err);
	if (status == WEIR_OK)
		out->outer_s = at_least_0(out->legs[PLAN_DENSE_PUSH][0].server_s - code.server_s);
	return status;
}

static weir_status measure_round_trip(struct legs *l, struct plan_figures *out, weir_error *err)
{
	weir_table_spec spec;
	uint32_t id;
	float values[SMALL_ELEMENTS];
	weir_table_spec_init(&spec, sizeof spec);
	snprintf(spec.name, sizeof spec.name, "probe-small");
	spec.kind = WEIR_DENSE;
	spec.elements = SMALL_ELEMENTS;
	weir_status status = weir_table_register(l->server.client, &spec, &id, err);
	const weir_pull_item item = {.table = id, .values = values};
	const double start = probe_now_s();
	for (uint32_t i = 0; i < ROUND_TRIPS && status == WEIR_OK; i++) {
		weir_ticket ticket;
		status = weir_pull(l->server.client, NULL, &item, 1, NULL, NULL, &ticket, err);
		if (status == WEIR_OK)
			status = weir_wait(l->server.client, ticket, -1, err);
	}
	out->round_trip_s = (probe_now_s() - start) / ROUND_TRIPS;
	return status;
}

/* --- Whole batches, as a trainer takes them */

struct whole {
	uint32_t ids[MODEL_TABLES];
	weir_ticket pull[PROBE_BATCHES], push[PROBE_BATCHES]; /* 0: none under way */
};

static weir_status settle(const struct legs *l, weir_ticket *ticket, weir_error *err)
{
	const weir_ticket waits = *ticket;
	*ticket = 0;
	return waits ? weir_wait(l->server.client, waits, -1, err) : WEIR_OK;
}

static size_t fill_whole(const struct legs *l, const struct whole *w, struct minibatch *m, weir_push_item *push,
                         weir_pull_item *pull)
{
	struct exchange rows = {.keyed = true}, flat = {.keyed = false};
	memcpy(rows.ids, w->ids, sizeof rows.ids);
	memcpy(flat.ids, w->ids, sizeof flat.ids);
	const size_t count = fill_items(l, &rows, m, push, pull);
	return count + fill_items(l, &flat, m, push + count, pull + count);
}

/* Loads batch i and starts its pull. Its push before is acknowledged. */
static weir_status begin_whole(struct legs *l, struct whole *w, uint32_t i, weir_error *err)
{
	weir_push_item push[MODEL_TABLES];
	weir_pull_item pull[MODEL_TABLES];
	const uint32_t at = i % l->computer->count;
	struct minibatch *m = &l->computer->batches[at];
	weir_status status = settle(l, &w->push[at], err);
	if (status == WEIR_OK)
		status = minibatch_load(m, &l->data->batches[at], err);
	const size_t count = fill_whole(l, w, m, push, pull);
	return status == WEIR_OK ? weir_pull(l->server.client, NULL, pull, count, NULL, NULL, &w->pull[at], err) : status;
}

static weir_status end_whole(struct legs *l, struct whole *w, uint32_t i, weir_error *err)
{
	weir_push_item push[MODEL_TABLES];
	weir_pull_item pull[MODEL_TABLES];
	const uint32_t at = i % l->computer->count;
	struct minibatch *m = &l->computer->batches[at];
	weir_batch id;
	weir_status status = settle(l, &w->pull[at], err);
	if (status == WEIR_OK)
		status = probe_train(l->computer, l->data->job, i, err);
	if (status == WEIR_OK)
		status = scratch_server_batch(&l->server, &id, err);
	const size_t count = fill_whole(l, w, m, push, pull);
	return status == WEIR_OK ? weir_push(l->server.client, &id, push, count, NULL, NULL, NULL, &w->push[at], err) : status;
}

static weir_status run_whole(struct legs *l, struct whole *w, uint32_t n, double until, uint32_t *ran, weir_error *err)
{
	weir_status status = begin_whole(l, w, 0, err);
	for (*ran = 0; status == WEIR_OK && (*ran < n || probe_now_s() < until); ++*ran) {
		if (l->computer->count > 1)
			status = begin_whole(l, w, *ran + 1, err);
		if (status == WEIR_OK)
			status = end_whole(l, w, *ran, err);
		if (status == WEIR_OK && l->computer->count == 1)
			status = begin_whole(l, w, *ran + 1, err);
	}
	for (uint32_t i = 0; i < PROBE_BATCHES && status == WEIR_OK; i++) {
		status = settle(l, &w->pull[i], err);
		if (status == WEIR_OK)
			status = settle(l, &w->push[i], err);
	}
	return status;
}

/* What a whole batch takes beyond its parts. The job's own codecs are the first of each leg. */
static void note_joint(struct plan_figures *out, const struct plan_code *whole)
{
	double caller_s = out->compute_one_s + out->load_s, client_s = 0, server_s = 0;
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++)
		if (out->codes[leg] > 0) {
			caller_s += out->legs[leg][0].caller_s;
			client_s += out->legs[leg][0].client_s;
			server_s += out->legs[leg][0].server_s;
		}
	out->joint_caller_s = whole->caller_s - caller_s;
	out->joint_client_s = whole->client_s - client_s;
	out->joint_server_s = whole->server_s - server_s;
}

static weir_status measure_whole(struct legs *l, struct plan_figures *out, weir_error *err)
{
	struct whole w = {0};
	struct plan_code code = {0};
	uint32_t n = 0;
	weir_status status = WEIR_OK;
	for (enum model_table t = 0; t < MODEL_TABLES && status == WEIR_OK; t++)
		if (model_has(l->computer->model, t) && t != MODEL_STATISTICS)
			status = add_table(l, t, false, &w.ids[t], err);
	if (status == WEIR_OK)
		status = run_whole(l, &w, 1, probe_now_s() + PROBE_SLICE_S, &n, err);
	const struct spent from = spent_now(l, true);
	if (status == WEIR_OK)
		status = run_whole(l, &w, EXCHANGES_LEAST, probe_now_s() + 2 * PROBE_SLICE_S, &n, err);
	const struct spent to = spent_now(l, true);
	if (status == WEIR_OK) {
		note_code(&code, &from, &to, n);
		note_joint(out, &code);
	}
	return status;
}

weir_status probe_legs(struct probe_data *d, struct probe_computer *c, struct plan_figures *out, weir_error *err)
{
	struct legs l = {.data = d, .computer = c};
	const struct scratch_options options = {.unix_socket = strcmp(d->job->cluster.listen, "auto") == 0,
	                                        .log_on_disk = d->job->cluster.log == JOB_LOG_DISK,
	                                        .partitions = d->job->cluster.partitions};
	weir_status status = scratch_server_start(&l.server, &options, err);
	if (status == WEIR_OK)
		status = measure_round_trip(&l, out, err);
	if (status == WEIR_OK && model_has(c->model, MODEL_DENSE))
		status = measure_kind(&l, false, out, err);
	if (status == WEIR_OK && model_has(c->model, MODEL_DENSE))
		status = measure_outer(&l, out, err);
	if (status == WEIR_OK && (model_has(c->model, MODEL_EMBEDDING) || model_has(c->model, MODEL_LINEAR)))
		status = measure_kind(&l, true, out, err);
	if (status == WEIR_OK)
		status = measure_whole(&l, out, err);
	scratch_server_stop(&l.server);
	return status;
}
