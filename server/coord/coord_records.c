/* Replicas ask by entering a list, which the session's thread takes as a whole in one turn. Answers
 * travel as a task on the replica's own thread, which takes all that there is to tell from the
 * client. Neither direction allocates memory, so no answer is ever missed.
 *
 * Life of a session:
 *
 *     keep (keeper's thread) --> kept: records are read, then watched
 *       --> lease_lost      --> keep: closed, and another session is opened
 *       --> coord_records_close --> keep: closed --> ended */
#include <assert.h>
#include <stdlib.h>

#include "server/coord/coord_records_internal.h"

static void keep_session(struct coord_records *a, struct coord *left);

/* --- Turns */

static void turn(void *arg)
{
	struct coord_records *a = arg;
	pthread_mutex_lock(&a->lock);
	struct coord_records_client *asking = a->asking;
	struct coord_records_placing *placing = a->placing;
	struct coord_records_succession *succeeding = a->succeeding;
	struct coord_records_look *looks = a->looks;
	struct coord_records_marking *marking = a->marking;
	a->asking = NULL;
	a->placing = NULL;
	a->succeeding = NULL;
	a->looks = NULL;
	a->marking = NULL;
	a->turn_posted = false;
	pthread_mutex_unlock(&a->lock);
	self_announce(a);
	place_all(a, placing);
	succeed_all(a, succeeding);
	if (marking)
		self_mark(a, marking);
	for (struct coord_records_client *c = asking, *next; c; c = next) {
		next = c->next;
		if (c->asks == COORD_RECORDS_CHANGE) {
			record_change(c);
			continue;
		}
		c->put = false;
		c->next = a->waiting;
		a->waiting = c;
	}
	for (struct coord_records_look *l = looks, *next; l; l = next) {
		next = l->next;
		l->next = a->to_look;
		a->to_look = l;
	}
	if (a->waiting || a->to_look || (a->coord && a->stale))
		records_read(a);
	if (!a->coord && !a->keeping && !a->closing)
		keep_session(a, NULL);
}

/* Requires the lock. */
static void post_turn(struct coord_records *a)
{
	if (!a->turn_posted)
		callback_executor_post(&a->options.session, turn, a);
	a->turn_posted = true;
}

static void ask(struct coord_records_client *c)
{
	struct coord_records *a = c->records;
	c->next = a->asking;
	a->asking = c;
	post_turn(a);
}

/* --- The session */

static void on_state(void *arg, enum coord_state state, const char *text)
{
	struct coord_records *a = arg;
	if (state == COORD_AWAY)
		LOG_AT(a->options.logger, LOG_WARN, "coordinator away", "roles stay as they are until it is back: %s", text);
	else
		LOG_AT(a->options.logger, LOG_INFO, "coordinator connected", "records=%s", a->prefix);
}

/* From here on nobody asks the session, and it reports nothing. */
static void leave_session(struct coord_records *a)
{
	struct coord *left = a->coord;
	a->coord = NULL;
	a->watch = NULL;
	a->announced = a->started = false;
	a->start_revision = 0;
	keep_session(a, left);
}

static void on_lease_lost(void *arg, int64_t held_until_ns)
{
	struct coord_records *a = arg;
	(void)held_until_ns;
	LOG_AT(a->options.logger, LOG_WARN, "lease lost", "another session with the coordinator is opened");
	if (a->coord)
		leave_session(a);
	else
		a->lost = true;
}

static weir_status open_session(struct coord_records *a, weir_error *err)
{
	const struct coord_options o = {
	    .lease_ms = a->options.lease_ms, .handler = {.state = on_state, .lease_lost = on_lease_lost}, .arg = a};
	return a->options.open(a->options.arg, &a->kept, &o, err);
}

static void kept(void *arg)
{
	struct coord_records *a = arg;
	a->keeping = false;
	if (a->kept && (a->lost || a->closing)) {
		keep_session(a, a->kept);
	} else if (a->kept) {
		a->coord = a->kept;
		a->stale = true;
		records_read(a);
	} else if (a->closing) {
		a->ended(a->ended_arg);
	}
}

/* On the keeper's thread. */
static void keep(void *arg)
{
	struct coord_records *a = arg;
	weir_error err = {0};
	coord_close(a->kept);
	a->kept = NULL;
	if (a->reopen && open_session(a, &err))
		LOG_AT(a->options.logger, LOG_ERROR, "no session with the coordinator", "%s", err.text);
	callback_executor_post(&a->options.session, kept, a);
}

static void keep_session(struct coord_records *a, struct coord *left)
{
	assert(!a->keeping);
	a->keeping = true;
	a->kept = left;
	a->lost = false;
	a->reopen = !a->closing;
	callback_executor_post(&a->options.keeper, keep, a);
}

/* --- Life */

weir_status coord_records_create(struct coord_records **out, const struct coord_records_options *options, weir_error *err)
{
	assert(options->partitions > 0 && options->partitions <= WEIR_PARTITIONS_MAX);
	*out = NULL;
	struct coord_records *a = calloc(1, sizeof *a);
	if (!a)
		return weir_fail(err, WEIR_E_MEMORY, "the coordinator's records: out of memory");
	a->options = *options;
	a->keeping = true;
	coord_records_prefix(options->uuid, options->generation, a->prefix);
	pthread_mutex_init(&a->lock, NULL);
	weir_status status = open_session(a, err);
	if (status) {
		coord_records_destroy(a);
		return status;
	}
	*out = a;
	callback_executor_post(&options->session, kept, a);
	return WEIR_OK;
}

static void close_now(void *arg)
{
	struct coord_records *a = arg;
	a->closing = true;
	if (a->coord)
		leave_session(a);
	else if (!a->keeping)
		a->ended(a->ended_arg);
}

void coord_records_close(struct coord_records *a, void (*ended)(void *arg), void *arg)
{
	a->ended = ended;
	a->ended_arg = arg;
	callback_executor_post(&a->options.session, close_now, a);
}

void coord_records_destroy(struct coord_records *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void coord_records_tick(struct coord_records *a)
{
	pthread_mutex_lock(&a->lock);
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}

/* --- Clients */

void coord_records_join(struct coord_records *a, struct coord_records_client *c)
{
	c->records = a;
	pthread_mutex_lock(&a->lock);
	assert(!a->clients[slot_of(c->partition)]);
	a->clients[slot_of(c->partition)] = c;
	pthread_mutex_unlock(&a->lock);
}

void coord_records_read(struct coord_records_client *c)
{
	pthread_mutex_lock(&c->records->lock);
	assert(c->asks == COORD_RECORDS_NOTHING);
	c->asks = COORD_RECORDS_READ;
	ask(c);
	pthread_mutex_unlock(&c->records->lock);
}

void coord_records_change(struct coord_records_client *c, const struct replica_record *record)
{
	pthread_mutex_lock(&c->records->lock);
	assert(c->asks == COORD_RECORDS_NOTHING);
	c->asks = COORD_RECORDS_CHANGE;
	c->proposed = *record;
	ask(c);
	pthread_mutex_unlock(&c->records->lock);
}

void coord_records_look(struct coord_records *a, struct coord_records_look *l)
{
	pthread_mutex_lock(&a->lock);
	l->next = a->looks;
	a->looks = l;
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}

void coord_records_place(struct coord_records *a, struct coord_records_placing *p)
{
	p->records = a;
	pthread_mutex_lock(&a->lock);
	p->next = a->placing;
	a->placing = p;
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}

void coord_records_mark(struct coord_records *a, struct coord_records_marking *m)
{
	m->records = a;
	pthread_mutex_lock(&a->lock);
	assert(!a->marking);
	a->marking = m;
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}

void coord_records_succeed(struct coord_records *a, struct coord_records_succession *x)
{
	x->records = a;
	pthread_mutex_lock(&a->lock);
	x->next = a->succeeding;
	a->succeeding = x;
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}
