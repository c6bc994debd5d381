#include "rewind_follow.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "authority_format.h"
#include "clock.h"
#include "deadline.h"

#define LEASE_MS 10000u
#define CALL_MS  1000u
#define POLL_MS  20
#define LATE_MS  1000 /* then it is said that it is waited for */

struct follow {
	const struct rewind_follow_options *options;
	struct coord *coord;
	char key[WEIR_COORD_KEY_BYTES_MAX];
	uint64_t after; /* the generation whose `next` is read */
	int64_t begun_ms;
	bool late;
	pthread_mutex_t lock;
	pthread_cond_t answered;
	/* Guarded by lock. */
	bool asked, over, found; /* asked: the session has been, and can be closed */
	weir_status status;      /* of the read, or of what it brought */
	weir_error err;
	struct rewind_record record;
};

/* --- On the session's thread */

static void end(struct follow *f, weir_status status)
{
	pthread_mutex_lock(&f->lock);
	f->status = status;
	f->over = true;
	pthread_cond_signal(&f->answered);
	pthread_mutex_unlock(&f->lock);
}

static void on_read(void *arg, const struct coord_answer *a)
{
	struct follow *f = arg;
	weir_status status = a->status ? WEIR_E_UNAVAILABLE : WEIR_OK;
	f->found = !status && a->count == 1;
	if (f->found)
		status = authority_unpack_next(a->records[0].value, a->records[0].value_bytes, f->after, &f->record, &f->err);
	end(f, status);
}

static void read_next(void *arg)
{
	struct follow *f = arg;
	weir_error err = {0};
	if (coord_read(f->coord, f->key, CALL_MS, on_read, f, &err))
		end(f, WEIR_E_UNAVAILABLE);
	pthread_mutex_lock(&f->lock);
	f->asked = true;
	pthread_cond_signal(&f->answered);
	pthread_mutex_unlock(&f->lock);
}

/* --- On the caller's */

static void on_state(void *arg, enum coord_state state, const char *text)
{
	(void)arg, (void)state, (void)text; /* what is not answered is read again */
}

static void on_lease_lost(void *arg, int64_t held_until_ns)
{
	(void)arg, (void)held_until_ns; /* the same, in another session */
}

/* Until the read has ended, which it does by its deadline, or the session is to be closed, which ends it. */
static void wait_for_read(struct follow *f)
{
	pthread_mutex_lock(&f->lock);
	while (!f->asked || (!f->over && !f->options->asked_to_end(f->options->arg)))
		(void)deadline_wait(&f->answered, &f->lock, deadline_after_ms(POLL_MS));
	pthread_mutex_unlock(&f->lock);
}

static bool pause_and_go_on(struct follow *f)
{
	const struct rewind_follow_options *o = f->options;
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000l};
	if (!f->late && clock_ms(clock_system()) - f->begun_ms >= LATE_MS) {
		f->late = true;
		LOG_AT(o->logger, LOG_WARN, "waiting", "cluster.coord %s does not answer yet: start it, or correct the address",
		       o->coordinator);
	}
	nanosleep(&pause, NULL);
	return !o->asked_to_end(o->arg);
}

/* One session for each read: few servers start, and one that finds a record reads two. A session may lose its lease while the coordinator is away. */
static weir_status try_read(struct follow *f, weir_error *err)
{
	static const struct coord_handler handler = {.state = on_state, .lease_lost = on_lease_lost};
	const struct rewind_follow_options *o = f->options;
	const struct coord_options session = {.lease_ms = LEASE_MS, .handler = handler, .arg = f};
	weir_status status = o->open(o->arg, &f->coord, &session, err);
	if (status)
		return status;
	f->asked = f->over = f->found = false;
	f->status = WEIR_E_UNAVAILABLE;
	poster_post(&o->session, read_next, f);
	wait_for_read(f);
	coord_close(f->coord);
	return f->status == WEIR_OK || f->status == WEIR_E_UNAVAILABLE ? WEIR_OK
	                                                               : weir_fail(err, f->status, "%s: %s", f->key, f->err.text);
}

/* What follows a generation, once there is an answer. */
static weir_status read_after(struct follow *f, uint64_t generation, weir_error *err)
{
	char prefix[WEIR_COORD_KEY_BYTES_MAX];
	f->after = generation;
	authority_prefix(f->options->uuid, generation, prefix);
	authority_key(prefix, AUTHORITY_NEXT, 0, f->key);
	weir_status status;
	while (!(status = try_read(f, err)) && f->status)
		if (!pause_and_go_on(f))
			return weir_fail(err, WEIR_E_CANCELLED, "asked to end");
	return status;
}

/* The record by which the generation was begun that it was told, if it is one that the job went back in. */
static weir_status check_told(struct follow *f, struct rewind_record *last, weir_error *err)
{
	const struct rewind_follow_options *o = f->options;
	if (o->generation < 2)
		return WEIR_OK;
	weir_status status = read_after(f, o->generation - 1, err);
	if (status || !f->found || f->record.generation != o->generation)
		return status;
	if (o->restore && *o->restore && strcmp(o->restore, f->record.checkpoint) != 0)
		return weir_fail(err, WEIR_E_STATE,
		                 "generation %" PRIu64
		                 " of the job began with checkpoint %s (%s), and this server is told to begin it with %s: "
		                 "give it a higher generation, or `weir restore` again",
		                 o->generation, f->record.checkpoint, f->record.why, o->restore);
	*last = f->record;
	return WEIR_OK;
}

weir_status rewind_follow(const struct rewind_follow_options *options, struct rewind_record *last, weir_error *err)
{
	struct follow f = {.options = options, .begun_ms = clock_ms(clock_system())};
	*last = (struct rewind_record){0};
	pthread_mutex_init(&f.lock, NULL);
	deadline_cond_init(&f.answered);
	weir_status status = check_told(&f, last, err);
	if (!status)
		status = read_after(&f, options->generation, err);
	while (!status && f.found) {
		*last = f.record;
		status = read_after(&f, last->generation, err);
	}
	pthread_cond_destroy(&f.answered);
	pthread_mutex_destroy(&f.lock);
	return status;
}
