/* From the reader to the device: a batch is started with a pull, and launched when that is done. */
#include "worker/train/loop/trainer_internal.h"

#include "worker/train/loop/pace.h"

/* How often a batch that waits for its step checks `stop`. */
#define TRAINER_STOP_LOOK_MS 50

static weir_status pull(struct trainer *t, struct slot *s, enum pull_set set, weir_error *err)
{
	weir_pull_item items[MODEL_TABLES];
	weir_batch id = trainer_batch(s);
	size_t count = tables_pull_items(&t->tables, &s->data, set, true, items);
	if (count == 0)
		return WEIR_OK;
	const bool layered = t->layers && set == PULL_SYNC;
	for (size_t i = 0; layered && i < count; i++)
		if (items[i].table == t->tables.ids[MODEL_DENSE])
			items[i].keys = layers_first(t->layers, &items[i].rows);
	const weir_status status = weir_pull(t->client, &id, items, count, NULL, NULL, &s->ticket, err);
	if (status != WEIR_OK || !layered)
		return status;
	return layers_pull(t->layers, t->client, &id, t->tables.ids[MODEL_DENSE], s->data.parameters[MODEL_DENSE], err);
}

weir_status trainer_settle(struct trainer *t, struct slot *s, weir_error *err)
{
	if (s->ticket == 0)
		return WEIR_OK;
	weir_ticket ticket = s->ticket;
	s->ticket = 0;
	return weir_wait(t->client, ticket, -1, err);
}

/* The same for a pull that may wait for other workers: E_CANCELLED once this one is to stop. */
static weir_status settle_step(struct trainer *t, struct slot *s, weir_error *err)
{
	weir_error late = {0};
	while (s->ticket != 0) {
		const weir_status status = weir_wait(t->client, s->ticket, TRAINER_STOP_LOOK_MS, &late);
		if (status != WEIR_E_TIMEOUT) {
			s->ticket = 0;
			return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s", late.text);
		}
		if (atomic_load(t->options->stop))
			weir_stop_waiting(t->client);
	}
	return WEIR_OK;
}

/* Measures how long the reader has not brought what it was asked for. */
static weir_status note_reader(struct trainer *t, bool came, weir_error *err)
{
	const int64_t now_ns = clock_ns(clock_system());
	if (came || !units_any(&t->units) || t->fed_ns == 0)
		t->fed_ns = now_ns;
	return trainer_heed(t, anomalies_note_wait(&t->anomalies, (double)(now_ns - t->fed_ns) / 1e9, t->job->train.anomaly.data_s),
	                    NULL, err);
}

/* Makes the batch ready, with the negatives that join it. */
static weir_status load(struct trainer *t, struct slot *s, weir_error *err)
{
	const weir_unit *u = &s->unit->lease;
	if (t->negatives.count == 0)
		return minibatch_load(&s->data, &s->item->batch, err);
	const uint64_t seed = trainer_negatives_seed(t->job, u->pass, u->place, s->item->index);
	const weir_status status = negatives_join(&t->negatives, &s->item->batch, seed, &s->joined, err);
	return status == WEIR_OK ? minibatch_load(&s->data, &s->joined, err) : status;
}

/* Looks up the batch's keys: cached rows are not pulled. */
static weir_status look_up(struct trainer *t, struct slot *s, weir_error *err)
{
	if (!t->row_cache)
		return WEIR_OK;
	const weir_status status =
	    row_cache_look_up(t->row_cache, t->started, s->data.keys, s->data.input.group_begin, &s->cached, err);
	minibatch_want(&s->data, s->cached.missing, s->cached.begin);
	return status;
}

weir_status trainer_start_next(struct trainer *t, bool wait, bool *started, weir_error *err)
{
	struct prefetched *item = NULL;
	*started = false;
	const int64_t since_ns = clock_ns(clock_system());
	weir_status status = prefetcher_next(t->prefetcher, &item, wait ? UNITS_POLL_MS : 0);
	if (wait) {
		trainer_metrics_spent(t->metrics.read_wait, since_ns);
		trace_end(client_trace(t->client), since_ns, &(struct trace_what){.kind = TRACE_READ, .batch = TRACE_NO_BATCH});
		weir_waits_for_data(t->client, status == WEIR_E_TIMEOUT);
	}
	if (status == WEIR_OK || (status == WEIR_E_TIMEOUT && wait)) {
		const weir_status heeded = note_reader(t, status == WEIR_OK, err);
		if (heeded != WEIR_OK)
			return heeded;
	}
	if (status == WEIR_E_TIMEOUT)
		return WEIR_OK;
	if (status != WEIR_OK)
		return weir_fail(err, status, "the reader stopped");
	bool usable;
	status = units_note(&t->units, item, &usable, err);
	if (status != WEIR_OK || !usable) {
		prefetcher_recycle(t->prefetcher, item);
		*started = status == WEIR_OK;
		return status;
	}
	struct slot *s = trainer_slot(t, t->started++);
	s->item = item;
	s->unit = &t->units.held[item->unit.tag];
	s->unit->in_ring++;
	*started = true;
	const weir_unit *u = &s->unit->lease;
	const int64_t loading_ns = trace_begin(client_trace(t->client));
	status = batch_places_find(&t->places, u->pass, u->place, item->index, &s->place, err);
	if (status == WEIR_OK)
		status = load(t, s, err);
	if (status == WEIR_OK)
		status = look_up(t, s, err);
	if (status == WEIR_OK)
		status = pull(t, s, PULL_ASYNC, err);
	trainer_note_span(t, s, TRACE_LOAD, loading_ns);
	return status;
}

/* Before the batch is computed: takes in the servers' results of this worker's rounds and of the
 * others'. */
static weir_status begin_local(struct trainer *t, struct slot *s, weir_error *err)
{
	if (!t->local)
		return WEIR_OK;
	const struct local_sgd_batch b = trainer_local_batch(t, s);
	const uint64_t waits_for = local_sgd_waits_for(t->local, &b);
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && t->acknowledged < waits_for)
		status = trainer_acknowledge(t, true, err);
	if (status == WEIR_OK)
		status = local_sgd_acknowledged(t->local, &b, t->acknowledged, err);
	if (status == WEIR_OK)
		status = local_sgd_begin(t->local, &b, err);
	s->data.input.parameters[MODEL_DENSE] = local_sgd_parameters(t->local);
	return status;
}

/* What the model of the batch follows; NULL: the dense table is there, and leaves whole. */
static const struct layer_flow *flow_of(struct trainer *t, const struct slot *s)
{
	if (!t->layers)
		return NULL;
	if (!t->pushes_layers || trainer_is_alone(t, s) || trainer_is_masked(s))
		return layers_begin(t->layers, NULL);
	struct layers_push *p = &t->push;
	*p = (struct layers_push){.batch = trainer_batch(s),
	                          .options = {.place = s->place + 1, .weight = trainer_weight(t, s)},
	                          .loss = s->data.output.loss_sum};
	p->count = tables_push_items(&t->tables, &s->data, NULL, 0, p->items);
	while (p->items[p->layered].table != t->tables.ids[MODEL_DENSE])
		p->layered++;
	return layers_begin(t->layers, p);
}

weir_status trainer_launch_next(struct trainer *t, weir_error *err)
{
	struct slot *s = trainer_slot(t, t->launched);
	const struct clock *clock = clock_system();
	const int64_t since_ns = clock_ns(clock);
	weir_status status = trainer_settle(t, s, err);
	if (status == WEIR_OK)
		status = pull(t, s, PULL_SYNC, err);
	if (status == WEIR_OK)
		status = settle_step(t, s, err);
	trainer_metrics_spent(t->metrics.pull_wait, since_ns);
	trainer_note_span(t, s, TRACE_PULL_WAIT, since_ns);
	if (status == WEIR_OK)
		status = begin_local(t, s, err);
	if (status != WEIR_OK)
		return status;
	const weir_unit *u = &s->unit->lease;
	s->launched_ns = clock_ns(clock);
	s->until_ns = s->launched_ns + pace_of(t->job, t->number, clock->ops->wall_ns(clock));
	s->step = (struct batch_pipeline_step){.seed = trainer_dropout_seed(t->job, u->pass, u->place, s->item->index),
	                                       .clip_norm = t->job->train.clip_norm,
	                                       .loss_scale = t->scale.value};
	s->data.input.flow = flow_of(t, s);
	status = batch_pipeline_launch(t->pipeline, &s->data.input, t->row_cache ? &s->cached : NULL, &s->step, &s->data.output, err);
	if (status == WEIR_OK && t->layers)
		status = layers_computed(t->layers, err);
	t->launched += status == WEIR_OK;
	return status;
}
