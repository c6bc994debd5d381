/* Steps of synchronous tables (Chen et al. 2016, "Revisiting distributed synchronous SGD": backup
 * workers).
 *
 * One step is open at a time. Its members are the batches that were ready when it opened. It closes
 * once all but `backup` of the working trainers have reported their batches done. The one record of
 * its close lists the batches that count, in order, and those that are dropped.
 *
 * A worker that reports one batch done and the next one ready in the same request counts for the
 * next step before that step opens. So equal workers move in lockstep.
 *
 * A member that dies before its batch is done leaves its seat to the worker that executes the batch
 * again, as long as the step waits for that (ledger_lockstep.c). Otherwise the batch is neither
 * included nor dropped: it takes part in a later step, with whatever parts of it the partitions
 * hold already.
 *
 * A batch is in one close only. If it is executed again later, it takes part in no other step, or
 * it would count in a mean to which it adds nothing. */
#include <stdlib.h>
#include <string.h>

#include "server/ledger/ledger_state.h"

static bool same_batch(const struct ledger_batch *a, const struct ledger_batch *b)
{
	return a->pass == b->pass && a->unit == b->unit && a->batch == b->batch;
}

static struct ledger_batch read_batch(const Weir__V1__BatchId *b)
{
	return b ? (struct ledger_batch){b->pass, b->unit, b->batch} : (struct ledger_batch){0};
}

/* The member of the open step for this incarnation, or NULL. */
static struct step_member *member_of(struct ledger *l, const struct ledger_worker *w)
{
	for (uint32_t i = 0; l->steps.open && i < l->steps.count; i++)
		if (l->steps.members[i].worker == w->id && l->steps.members[i].incarnation == w->incarnation)
			return &l->steps.members[i];
	return NULL;
}

static void poll_answer(struct ledger *l, struct ledger_worker *w, weir_status code, const char *text)
{
	Weir__V1__StepReply r = WEIR__V1__STEP_REPLY__INIT;
	Weir__V1__Status status;
	Weir__V1__StepClose *closes[WEIR_STEP_CLOSES_KEPT];
	struct step_poll poll = w->poll;
	w->poll.active = false;
	ledger_fill_status(&status, code, text);
	r.status = &status;
	r.step = code == WEIR_OK && poll.ready && !poll.over ? l->steps.closed + 1 : 0;
	for (uint32_t i = 0; i < l->steps.closes_count; i++)
		closes[i] = &l->steps.closes[i]->message;
	r.n_closes = l->steps.closes_count;
	r.closes = closes;
	r.done_dropped = poll.dropped;
	poll.reply(poll.arg, &r.base);
}

void ledger_close_destroy(struct close_record *c)
{
	if (!c)
		return;
	free(c->ids);
	free(c->list);
	free(c->weights);
	free(c);
}

void ledger_steps_destroy(struct ledger *l)
{
	for (uint32_t i = 0; i < l->steps.closes_count; i++)
		ledger_close_destroy(l->steps.closes[i]);
	free(l->steps.members);
}

static int compare_members(const void *a, const void *b)
{
	const struct step_member *x = a, *y = b;
	if (x->done != y->done)
		return x->done ? -1 : 1;
	if (x->batch.pass != y->batch.pass)
		return x->batch.pass < y->batch.pass ? -1 : 1;
	if (x->batch.unit != y->batch.unit)
		return x->batch.unit < y->batch.unit ? -1 : 1;
	return (x->batch.batch > y->batch.batch) - (x->batch.batch < y->batch.batch);
}

/* Fills in the weights of the included batches, as multiples of their mean. All exactly 1 if all
 * count alike. */
static void fill_weights(struct close_record *c, const struct step_member *members, uint32_t included)
{
	double sum = 0;
	bool alike = true;
	for (uint32_t i = 0; i < included; i++) {
		sum += members[i].weight;
		alike &= members[i].weight == members[0].weight;
	}
	if (alike && sum > 0)
		return;
	for (uint32_t i = 0; i < included; i++)
		c->weights[i] = sum > 0 ? (float)(members[i].weight * included / sum) : 0;
	c->message.n_weights = included;
	c->message.weights = c->weights;
}

struct close_record *ledger_close_make(uint64_t step, float rate_scale, const struct step_member *members, uint32_t count,
                                       uint32_t included)
{
	struct close_record *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->ids = calloc(count, sizeof *c->ids);
	c->list = calloc(count, sizeof(Weir__V1__BatchId *));
	c->weights = calloc(included + 1u, sizeof *c->weights);
	if (!c->ids || !c->list || !c->weights) {
		ledger_close_destroy(c);
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++) {
		weir__v1__batch_id__init(&c->ids[i]);
		c->ids[i].pass = members[i].batch.pass;
		c->ids[i].unit = members[i].batch.unit;
		c->ids[i].batch = members[i].batch.batch;
		c->list[i] = &c->ids[i];
	}
	weir__v1__step_close__init(&c->message);
	c->message.step = step;
	c->message.rate_scale = rate_scale;
	c->message.n_included = included;
	c->message.included = c->list;
	c->message.n_dropped = count - included;
	c->message.dropped = c->list + included;
	fill_weights(c, members, included);
	return c;
}

static uint32_t members_done(const struct ledger_steps *s)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->count; i++)
		n += s->members[i].done;
	return n;
}

/* Closes the open step. False: out of memory; the step stays open and a later event tries again. */
static bool close_open_step(struct ledger *l)
{
	struct ledger_steps *s = &l->steps;
	uint32_t done = members_done(s);
	for (uint32_t i = 0; i < s->count; i++)
		if (!ledger_unit_can_step(l, &s->members[i].batch))
			return false;
	qsort(s->members, s->count, sizeof *s->members, compare_members);
	struct close_record *c = ledger_close_make(s->closed + 1, ledger_rate_scale(l), s->members, s->count, done);
	if (!c)
		return false;
	if (s->closes_count == WEIR_STEP_CLOSES_KEPT) {
		ledger_close_destroy(s->closes[0]);
		memmove(s->closes, s->closes + 1, (WEIR_STEP_CLOSES_KEPT - 1) * sizeof(struct close_record *));
		s->closes_count--;
	}
	s->closes[s->closes_count++] = c;
	l->changes.steps = true;
	s->closed++;
	s->open = false;
	s->batches_dropped += s->count - done;
	for (uint32_t i = 0; i < s->count; i++) {
		struct ledger_worker *w = l->workers[s->members[i].worker];
		ledger_unit_step(l, &s->members[i].batch);
		if (!w->live || w->incarnation != s->members[i].incarnation)
			continue;
		if (!s->members[i].done) {
			w->dropped = true;
			ledger_mark_worker(l, w);
			w->dropped_batch = s->members[i].batch;
		}
		if (w->poll.active && !w->poll.ready)
			poll_answer(l, w, WEIR_OK, "");
	}
	return true;
}

/* Answers workers that are ready for a batch that has had its step: they wait for no other step. */
static void answer_over(struct ledger *l)
{
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		if (!w->poll.active || !w->poll.ready)
			continue;
		w->poll.over = ledger_unit_has_stepped(l, &w->poll.batch);
		if (w->poll.over)
			poll_answer(l, w, WEIR_OK, "");
	}
}

/* Opens the next step with all ready workers. False: none is ready, lockstep waits for others, or
 * out of memory. */
static bool step_open(struct ledger *l)
{
	struct ledger_steps *s = &l->steps;
	if (s->capacity < l->workers_count) {
		struct step_member *grown = realloc(s->members, l->workers_count * sizeof *grown);
		if (!grown)
			return false;
		s->members = grown;
		s->capacity = l->workers_count;
	}
	s->count = 0;
	answer_over(l);
	if (!ledger_lockstep_complete(l))
		return false;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		if (w->poll.active && w->poll.ready)
			s->members[s->count++] = (struct step_member){.worker = w->id, .incarnation = w->incarnation, .batch = w->poll.batch};
	}
	if (!s->count)
		return false;
	s->open = l->changes.steps = true;
	uint32_t holding = ledger_workers_holding(l), backup = ledger_tables_backup(l);
	s->needed = holding > backup ? holding - backup : 1;
	for (uint32_t i = 0; i < s->count; i++)
		poll_answer(l, l->workers[s->members[i].worker], WEIR_OK, "");
	return true;
}

static void member_remove(struct ledger *l, struct step_member *m)
{
	*m = l->steps.members[--l->steps.count];
	l->changes.steps = true;
}

/* --- Seats of lost members */

/* Whether another worker must execute the member's batch again. */
static bool has_gone(const struct ledger *l, const struct step_member *m)
{
	const struct ledger_worker *w = l->workers[m->worker];
	return !m->done && (!w->live || w->incarnation != m->incarnation);
}

static void give_seats_up(struct ledger *l)
{
	bool kept = false;
	for (uint32_t i = 0; l->steps.open && i < l->steps.count;) {
		struct step_member *m = &l->steps.members[i];
		if (has_gone(l, m) && !ledger_lockstep_keeps(l, &m->batch)) {
			member_remove(l, m);
			continue;
		}
		kept |= has_gone(l, m);
		i++;
	}
	if (!kept)
		ledger_lockstep_kept_none(l);
}

/* Gives the seat of a lost member to a worker that is ready for the same batch. */
static struct step_member *take_seat(struct ledger *l, const struct ledger_worker *w, const struct ledger_batch *b)
{
	for (uint32_t i = 0; l->steps.open && i < l->steps.count; i++) {
		struct step_member *m = &l->steps.members[i];
		if (!has_gone(l, m) || !same_batch(&m->batch, b))
			continue;
		m->worker = w->id;
		m->incarnation = w->incarnation;
		l->changes.steps = true;
		return m;
	}
	return NULL;
}

const struct ledger_batch *ledger_steps_seat_for(struct ledger *l, const struct ledger_worker *w)
{
	for (uint32_t i = 0; l->steps.open && !member_of(l, w) && i < l->steps.count; i++) {
		const struct step_member *m = &l->steps.members[i];
		const uint32_t unit = m->batch.unit;
		if (!has_gone(l, m) || m->batch.pass != l->pass || unit >= l->units_count || l->units[unit].state != UNIT_FREE)
			continue;
		const struct ledger_worker *owner = ledger_lockstep_owner(l, unit);
		if (owner == w || (owner && member_of(l, owner)))
			return &m->batch;
	}
	return NULL;
}

void ledger_steps_advance(struct ledger *l)
{
	struct ledger_steps *s = &l->steps;
	for (;;) {
		give_seats_up(l);
		if (s->open && s->count == 0)
			/* All its members died: its number is used again. */
			s->open = false, l->changes.steps = true;
		if (s->open) {
			uint32_t needed = s->needed < s->count ? s->needed : s->count;
			if (members_done(s) < needed || !close_open_step(l))
				return;
		}
		if (!step_open(l))
			return;
	}
}

void ledger_steps_forget(struct ledger *l, struct ledger_worker *w, const char *why)
{
	struct step_member *m = member_of(l, w);
	if (m && !m->done && !ledger_lockstep_keeps(l, &m->batch))
		member_remove(l, m);
	if (w->poll.active)
		poll_answer(l, w, WEIR_E_STALE, why);
}

void ledger_steps_answer(struct ledger *l, struct ledger_worker *w, weir_status status, const char *why)
{
	if (w->poll.active)
		poll_answer(l, w, status, why);
}

void ledger_steps_forget_unit(struct ledger *l, struct ledger_worker *w, uint32_t pass, uint32_t unit)
{
	struct step_member *m = member_of(l, w);
	if (m && !m->done && m->batch.pass == pass && m->batch.unit == unit)
		member_remove(l, m);
	if (w->poll.active && w->poll.ready && w->poll.batch.pass == pass && w->poll.batch.unit == unit)
		poll_answer(l, w, WEIR_E_CANCELLED, "its unit was given up");
}

/* Records `done` of a request: a batch of the open step, or of one that closed without it. */
static void report_done(struct ledger *l, struct ledger_worker *w, const Weir__V1__BatchId *q,
                        const Weir__V1__BatchWeight *weight, bool *dropped)
{
	const struct ledger_batch done = read_batch(q);
	struct step_member *m = member_of(l, w);
	if (m && same_batch(&m->batch, &done)) {
		m->done = l->changes.steps = true;
		m->weight = weight ? weight->value : 1;
	}
	*dropped = w->dropped && same_batch(&w->dropped_batch, &done);
}

static weir_status check_weight(const Weir__V1__BatchWeight *weight, weir_error *err)
{
	if (!weight || (weight->value >= 0 && weight->value <= WEIR_BATCH_WEIGHT_MAX))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "a batch weighs %g in its step: expected 0 to %g", weight->value,
	                 WEIR_BATCH_WEIGHT_MAX);
}

void ledger_step_done(struct ledger *l, struct ledger_worker *w, const Weir__V1__BatchId *done,
                      const Weir__V1__BatchWeight *weight)
{
	bool dropped;
	if (done && check_weight(weight, NULL) == WEIR_OK)
		report_done(l, w, done, weight, &dropped);
}

void ledger_step(struct ledger *l, const Weir__V1__StepRequest *q, ledger_reply_fn reply, void *arg)
{
	weir_error err = {0};
	struct ledger_worker *w = ledger_worker_find(l, q->job, q->worker, q->incarnation, &err);
	if (w && w->role != WEIR__V1__ROLE__TRAINER) {
		(void)weir_fail(&err, WEIR_E_STATE, "worker %s is not a trainer: it has no part in steps", w->name);
		w = NULL;
	}
	bool dropped = false;
	if (w && q->has_done && check_weight(q->done_weight, &err))
		w = NULL;
	if (w && q->has_done)
		report_done(l, w, q->done, q->done_weight, &dropped);
	struct ledger_batch ready = read_batch(q->ready);
	if (w && q->has_ready && !ledger_unit_is_held(l, w, &ready)) {
		(void)weir_fail(&err, WEIR_E_STATE, "batch %u of unit %u of pass %u: worker %s does not hold the unit", ready.batch,
		                ready.unit, ready.pass, w->name);
		w = NULL;
	}
	if (!w) {
		Weir__V1__StepReply r = WEIR__V1__STEP_REPLY__INIT;
		Weir__V1__Status status;
		ledger_fill_status(&status, err.status, err.text);
		r.status = &status;
		reply(arg, &r.base);
		ledger_steps_advance(l);
		return;
	}
	if (w->poll.active)
		poll_answer(l, w, WEIR_E_CANCELLED, "a newer request took its place");
	w->poll =
	    (struct step_poll){.active = true, .ready = q->has_ready, .dropped = dropped, .batch = ready, .reply = reply, .arg = arg};
	struct step_member *m = member_of(l, w);
	if (!m && q->has_ready)
		m = take_seat(l, w, &ready);
	bool repeat = m && q->has_ready && same_batch(&m->batch, &w->poll.batch);
	bool nothing = !q->has_ready && !(q->has_done && m && m->done);
	w->poll.over = q->has_ready && !m && ledger_unit_has_stepped(l, &w->poll.batch);
	if (repeat || nothing || w->poll.over)
		poll_answer(l, w, WEIR_OK, "");
	ledger_steps_advance(l);
}
