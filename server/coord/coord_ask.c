#include "server/coord/coord_ask.h"

#include <pthread.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"

#define LEASE_MS 10000u
#define CALL_MS  1000u
#define POLL_MS  20
#define LATE_MS  1000 /* then the log says that the server waits */

struct ask {
	const struct coord_ask_options *options;
	struct coord *coord;
	const char *key;
	/* One of the two is set. */
	weir_status (*take)(void *arg, const struct coord_record *record, weir_error *err);
	weir_status (*make)(void *arg, const struct coord_record *record, struct message **value, weir_error *err);
	void *arg;
	int64_t begun_ms;
	bool late;
	pthread_mutex_t lock;
	pthread_cond_t answered;
	/* Guarded by lock. */
	bool asked, over; /* asked: the read was issued, and the session can be closed */
	weir_status status;
	weir_error err;
};

/* --- On the session's thread */

static void end(struct ask *a, weir_status status)
{
	pthread_mutex_lock(&a->lock);
	a->status = status;
	a->over = true;
	pthread_cond_signal(&a->answered);
	pthread_mutex_unlock(&a->lock);
}

static void on_put(void *arg, const struct coord_answer *answer)
{
	end(arg, !answer->status && answer->applied ? WEIR_OK : WEIR_E_UNAVAILABLE);
}

static void put(struct ask *a, const struct coord_record *r)
{
	struct message *value = NULL;
	weir_error err = {0};
	weir_status status = a->make(a->arg, r, &value, &a->err);
	if (status) {
		end(a, status);
		return;
	}
	const struct coord_guard guard = {.key = a->key, .mod_revision = r ? r->mod_revision : 0};
	const struct coord_change change = {.key = a->key, .value = value->spans[0].data, .value_bytes = value->bytes};
	const struct coord_txn txn = {.guards = &guard, .guards_count = 1, .changes = &change, .changes_count = 1};
	if (coord_txn(a->coord, &txn, CALL_MS, on_put, a, &err))
		end(a, WEIR_E_UNAVAILABLE);
	message_release(value);
}

static void on_read(void *arg, const struct coord_answer *answer)
{
	struct ask *a = arg;
	const struct coord_record *r = answer->count == 1 ? answer->records : NULL;
	if (answer->status)
		end(a, WEIR_E_UNAVAILABLE);
	else if (a->take)
		end(a, a->take(a->arg, r, &a->err));
	else
		put(a, r);
}

static void read_key(void *arg)
{
	struct ask *a = arg;
	weir_error err = {0};
	if (coord_read(a->coord, a->key, CALL_MS, on_read, a, &err))
		end(a, WEIR_E_UNAVAILABLE);
	pthread_mutex_lock(&a->lock);
	a->asked = true;
	pthread_cond_signal(&a->answered);
	pthread_mutex_unlock(&a->lock);
}

/* --- On the caller's thread */

static void on_state(void *arg, enum coord_state state, const char *text)
{
	(void)arg, (void)state, (void)text; /* an unanswered read is repeated */
}

static void on_lease_lost(void *arg, int64_t held_until_ns)
{
	(void)arg, (void)held_until_ns; /* likewise, in another session */
}

/* Waits until the read has ended, at its deadline at the latest, or until the session is to be
 * closed, which ends the read. */
static void wait_for_read(struct ask *a)
{
	pthread_mutex_lock(&a->lock);
	while (!a->asked || (!a->over && !a->options->asked_to_end(a->options->arg)))
		(void)deadline_wait(&a->answered, &a->lock, deadline_after_ms(POLL_MS));
	pthread_mutex_unlock(&a->lock);
}

static bool pause_and_go_on(struct ask *a)
{
	const struct coord_ask_options *o = a->options;
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000l};
	if (!a->late && clock_ms(clock_system()) - a->begun_ms >= LATE_MS) {
		a->late = true;
		LOG_AT(o->logger, LOG_WARN, "waiting", "cluster.coord %s does not answer yet: start it, or correct the address",
		       o->coordinator);
	}
	nanosleep(&pause, NULL);
	return !o->asked_to_end(o->arg);
}

/* One session per read, because starts are rare. A session may lose its lease while the coordinator
 * is away. */
static weir_status try_read(struct ask *a, weir_error *err)
{
	static const struct coord_handler handler = {.state = on_state, .lease_lost = on_lease_lost};
	const struct coord_ask_options *o = a->options;
	const struct coord_options session = {.lease_ms = LEASE_MS, .handler = handler, .arg = a};
	weir_status status = o->open(o->arg, &a->coord, &session, err);
	if (status)
		return status;
	a->asked = a->over = false;
	a->status = WEIR_E_UNAVAILABLE;
	callback_executor_post(&o->session, read_key, a);
	wait_for_read(a);
	coord_close(a->coord);
	return a->status == WEIR_OK || a->status == WEIR_E_UNAVAILABLE ? WEIR_OK
	                                                               : weir_fail(err, a->status, "%s: %s", a->key, a->err.text);
}

static weir_status ask(struct ask *a, weir_error *err)
{
	a->begun_ms = clock_ms(clock_system());
	pthread_mutex_init(&a->lock, NULL);
	deadline_cond_init(&a->answered);
	weir_status status = try_read(a, err);
	while (!status && a->status)
		status = pause_and_go_on(a) ? try_read(a, err) : weir_fail(err, WEIR_E_CANCELLED, "asked to end");
	pthread_cond_destroy(&a->answered);
	pthread_mutex_destroy(&a->lock);
	return status;
}

weir_status coord_ask(const struct coord_ask_options *options, const char *key,
                      weir_status (*take)(void *arg, const struct coord_record *record, weir_error *err), void *arg,
                      weir_error *err)
{
	struct ask a = {.options = options, .key = key, .take = take, .arg = arg};
	return ask(&a, err);
}

weir_status coord_ask_put(const struct coord_ask_options *options, const char *key,
                          weir_status (*make)(void *arg, const struct coord_record *record, struct message **value,
                                              weir_error *err),
                          void *arg, weir_error *err)
{
	struct ask a = {.options = options, .key = key, .make = make, .arg = arg};
	return ask(&a, err);
}
