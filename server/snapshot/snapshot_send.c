#include "server/snapshot/snapshot_send.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "server/records/token_bucket.h"
#include "server/snapshot/snapshot_source.h"

/* A frame that the learner has not received. */
struct kept {
	struct kept *next;
	uint64_t number;
	struct message *message;
};

struct session {
	struct session *next;
	struct snapshot_sender *sender;
	struct snapshot_send_options options;
	uint64_t id;
	uint32_t partition;
	struct snapshot_source *source; /* used by the sending thread */
	/* Guarded by the sender's lock. */
	struct kept *first, **last;
	size_t kept_bytes;
	/* Frames below these numbers are confirmed by the learner; sent over this connection; made. */
	uint64_t received, sent, made;
	uint64_t sent_bytes;
	bool complete; /* END has been made */
	bool ready;    /* the source may have more */
	bool attached;
	struct snapshot_sink sink;
	int64_t heard_ms;
	weir_error err; /* reason for ending */
};

struct snapshot_sender {
	struct snapshot_sender_options options;
	struct token_bucket bucket; /* used by the sending thread */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by lock. */
	struct session *sessions;
	uint32_t live;  /* sessions that have begun and whose `ended` has not run */
	uint64_t begun; /* sessions begun so far */
	bool closed, stopping;
	bool woken; /* something has changed since the last step began */
};

static void wake(struct snapshot_sender *x)
{
	x->woken = true;
	pthread_cond_signal(&x->changed);
}

static int64_t now_ms(const struct snapshot_sender *x)
{
	return clock_ms(x->options.clock);
}

/* --- Kept frames */

static void keep(struct session *s, struct message *m)
{
	struct kept *k = malloc(sizeof *k);
	if (!k) {
		message_release(m);
		weir_fail(&s->err, WEIR_E_MEMORY, "partition %u: out of memory for a frame of its snapshot", s->partition);
		return;
	}
	*k = (struct kept){.number = s->made++, .message = m};
	*s->last = k;
	s->last = &k->next;
	s->kept_bytes += m->bytes;
}

static void forget_below(struct session *s, uint64_t number)
{
	while (s->first && s->first->number < number) {
		struct kept *k = s->first;
		if (!(s->first = k->next))
			s->last = &s->first;
		s->kept_bytes -= k->message->bytes;
		message_release(k->message);
		free(k);
	}
}

/* --- Sending */

static void send_kept(struct session *s)
{
	const struct kept *k = s->first;
	while (k->number != s->sent)
		k = k->next;
	s->sink.frame(s->sink.arg, k->message);
	s->sent++;
	s->sent_bytes += k->message->bytes;
	token_bucket_take(&s->sender->bucket, k->message->bytes);
}

/* Releases the lock while the source works. */
static void make_frame(struct session *s)
{
	struct snapshot_sender *x = s->sender;
	struct message *m = NULL;
	weir_error err = {0};
	s->ready = false; /* on_source_ready may set it before the source returns */
	pthread_mutex_unlock(&x->lock);
	weir_status status = snapshot_source_next(s->source, &m, &err);
	pthread_mutex_lock(&x->lock);
	s->ready |= m != NULL;
	s->complete = snapshot_source_is_complete(s->source);
	if (m)
		keep(s, m);
	else if (status && !s->err.status)
		s->err = err;
}

/* Sends or makes one frame of the session. False: nothing to do. */
static bool turn(struct session *s)
{
	if (!s->attached || s->err.status)
		return false;
	if (s->sent < s->made) {
		send_kept(s);
		return true;
	}
	if (s->complete || !s->ready || s->kept_bytes >= s->sender->options.window_bytes)
		return false;
	make_frame(s);
	return true;
}

/* Serves all sessions in turn while the rate allows. Returns how long it must then wait, in ns;
 * INT64_MAX: nothing is left to send. */
static int64_t send_all(struct snapshot_sender *x)
{
	for (bool went = true; went;) {
		went = false;
		for (struct session *s = x->sessions; s; s = s->next) {
			const int64_t wait = token_bucket_wait_ns(&x->bucket, clock_ns(x->options.clock));
			if (wait > 0)
				return wait;
			went |= turn(s);
		}
	}
	return INT64_MAX;
}

/* --- Ends */

/* The partition's thread. */
static void on_source_ended(void *arg)
{
	struct session *s = arg;
	struct snapshot_sender *x = s->sender;
	const struct snapshot_send_options o = s->options;
	const weir_error err = s->err;
	free(s);
	pthread_mutex_lock(&x->lock);
	x->live--;
	pthread_mutex_unlock(&x->lock);
	o.ended(o.arg, err.status, err.text);
}

static bool is_over(struct session *s)
{
	const int64_t silent_ms = now_ms(s->sender) - s->heard_ms;
	if (s->err.status || (s->complete && s->received == s->made))
		return true;
	if (silent_ms < (int64_t)WEIR_SNAPSHOT_PATIENCE_MS)
		return false;
	weir_fail(&s->err, WEIR_E_TIMEOUT, "partition %u: who takes its snapshot was not heard for %" PRId64 " ms", s->partition,
	          silent_ms);
	return true;
}

/* Needs: the session is no longer in the sender's list. */
static void finish(struct session *s)
{
	LOG_AT(s->sender->options.logger, s->err.status ? LOG_WARN : LOG_INFO, "snapshot over",
	       "partition=%u session=%" PRIu64 " frames=%" PRIu64 " bytes=%" PRIu64 " status=%s %s", s->partition, s->id, s->sent,
	       s->sent_bytes, weir_status_name(s->err.status), s->err.text);
	if (s->attached)
		s->sink.ended(s->sink.arg, s->err.status, s->err.text);
	forget_below(s, UINT64_MAX);
	snapshot_source_close(s->source); /* then on_source_ended frees s */
}

/* Ends all sessions that are over. Returns the time in ns until the next one would be over. */
static int64_t finish_all(struct snapshot_sender *x)
{
	int64_t next_ms = INT64_MAX / 1000000;
	for (struct session **at = &x->sessions, *s; (s = *at);) {
		if (is_over(s)) {
			*at = s->next;
			finish(s);
			continue;
		}
		const int64_t left_ms = s->heard_ms + WEIR_SNAPSHOT_PATIENCE_MS - now_ms(x);
		next_ms = left_ms < next_ms ? left_ms : next_ms;
		at = &s->next;
	}
	return x->sessions ? next_ms * 1000000 : INT64_MAX;
}

int64_t snapshot_sender_step(struct snapshot_sender *x)
{
	pthread_mutex_lock(&x->lock);
	x->woken = false;
	const int64_t sends = send_all(x), ends = finish_all(x);
	pthread_mutex_unlock(&x->lock);
	return sends < ends ? sends : ends;
}

/* --- The thread */

static void wait_for_change(struct snapshot_sender *x, int64_t ns)
{
	const int64_t most_ns = (int64_t)WEIR_SNAPSHOT_PATIENCE_MS * 1000000;
	const int64_t deadline_ns = deadline_after_ns(ns < 0 ? 0 : ns < most_ns ? ns : most_ns);
	pthread_mutex_lock(&x->lock);
	while (!x->woken && !x->stopping && deadline_wait(&x->changed, &x->lock, deadline_ns))
		;
	pthread_mutex_unlock(&x->lock);
}

static bool is_stopping(struct snapshot_sender *x)
{
	pthread_mutex_lock(&x->lock);
	const bool stopping = x->stopping;
	pthread_mutex_unlock(&x->lock);
	return stopping;
}

static void *run(void *arg)
{
	struct snapshot_sender *x = arg;
	while (!is_stopping(x))
		wait_for_change(x, snapshot_sender_step(x));
	return NULL;
}

/* --- Lifetime */

static void sender_destroy(struct snapshot_sender *x)
{
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

struct snapshot_sender *snapshot_sender_create(const struct snapshot_sender_options *options, weir_error *err)
{
	struct snapshot_sender *x = calloc(1, sizeof *x);
	if (!x) {
		weir_fail(err, WEIR_E_MEMORY, "the sender of snapshots: out of memory");
		return NULL;
	}
	x->options = *options;
	if (!x->options.window_bytes)
		x->options.window_bytes = SNAPSHOT_WINDOW_BYTES;
	x->bucket = (struct token_bucket){.bytes_per_s = options->bytes_per_s, .filled_ns = clock_ns(options->clock)};
	pthread_mutex_init(&x->lock, NULL);
	deadline_cond_init(&x->changed);
	if (!options->stepped && pthread_create(&x->thread, NULL, run, x) != 0) {
		sender_destroy(x);
		weir_fail(err, WEIR_E_LIMIT, "the sender of snapshots: no thread could be started");
		return NULL;
	}
	return x;
}

void snapshot_sender_close(struct snapshot_sender *x)
{
	pthread_mutex_lock(&x->lock);
	x->closed = true;
	for (struct session *s = x->sessions; s; s = s->next)
		if (!s->err.status)
			weir_fail(&s->err, WEIR_E_CLOSED, "the server is stopping");
	wake(x);
	pthread_mutex_unlock(&x->lock);
}

void snapshot_sender_destroy(struct snapshot_sender *x)
{
	if (!x)
		return;
	pthread_mutex_lock(&x->lock);
	assert(x->closed && x->live == 0);
	x->stopping = true;
	pthread_cond_signal(&x->changed);
	pthread_mutex_unlock(&x->lock);
	if (!x->options.stepped)
		pthread_join(x->thread, NULL);
	sender_destroy(x);
}

/* --- The partition's thread */

static void on_source_ready(void *arg)
{
	struct session *s = arg;
	pthread_mutex_lock(&s->sender->lock);
	s->ready = true;
	wake(s->sender);
	pthread_mutex_unlock(&s->sender->lock);
}

static weir_status reserve(struct snapshot_sender *x, uint32_t partition, uint64_t *id, weir_error *err)
{
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&x->lock);
	if (x->closed)
		status = weir_fail(err, WEIR_E_CLOSED, "the server is stopping");
	else if (x->live == WEIR_SNAPSHOTS_MAX)
		status = weir_fail(err, WEIR_E_BUSY, "%u snapshots are under way", WEIR_SNAPSHOTS_MAX);
	for (const struct session *s = x->sessions; s && !status; s = s->next)
		if (s->partition == partition && !s->err.status)
			status = weir_fail(err, WEIR_E_BUSY, "partition %u: a snapshot of it is under way", partition);
	if (!status) {
		x->live++;
		do
			*id = hash_u64(x->options.process_id + ++x->begun);
		while (*id == 0);
	}
	pthread_mutex_unlock(&x->lock);
	return status;
}

static weir_status begin_source(struct session *s, weir_error *err)
{
	const struct snapshot_sender_options *o = &s->sender->options;
	struct snapshot_source_options source = {.partition = s->options.partition,
	                                         .generation = o->generation,
	                                         .partitions = o->partitions,
	                                         .epoch = s->options.epoch,
	                                         .session = s->id,
	                                         .cold = o->cold,
	                                         .budget = o->budget,
	                                         .clock = o->clock,
	                                         .owner = s->options.owner,
	                                         .ready = on_source_ready,
	                                         .ended = on_source_ended,
	                                         .arg = s};
	memcpy(source.uuid, o->uuid, sizeof source.uuid);
	return snapshot_source_begin(&s->source, &source, err);
}

weir_status snapshot_send_begin(struct snapshot_sender *x, const struct snapshot_send_options *options, uint64_t *session,
                                weir_error *err)
{
	const uint32_t partition = partition_id(options->partition);
	weir_status status = reserve(x, partition, session, err);
	if (status)
		return status;
	struct session *s = calloc(1, sizeof *s);
	if (s) {
		*s = (struct session){
		    .sender = x, .options = *options, .id = *session, .partition = partition, .ready = true, .heard_ms = now_ms(x)};
		s->last = &s->first;
		status = begin_source(s, err);
	} else {
		status = weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a snapshot", partition);
	}
	pthread_mutex_lock(&x->lock);
	if (status) {
		x->live--;
		free(s);
	} else {
		LOG_AT(x->options.logger, LOG_INFO, "snapshot begins", "partition=%u session=%" PRIu64 " entry=%" PRIu64, partition,
		       s->id, snapshot_source_index(s->source));
		if (x->closed)
			weir_fail(&s->err, WEIR_E_CLOSED, "the server is stopping");
		s->next = x->sessions;
		x->sessions = s;
		wake(x);
	}
	pthread_mutex_unlock(&x->lock);
	return status;
}

void snapshot_send_abort(struct snapshot_sender *x, uint32_t partition, const char *why)
{
	pthread_mutex_lock(&x->lock);
	for (struct session *s = x->sessions; s; s = s->next)
		if (s->partition == partition && !s->err.status)
			weir_fail(&s->err, WEIR_E_CANCELLED, "partition %u: %s", partition, why);
	wake(x);
	pthread_mutex_unlock(&x->lock);
}

/* Needs the lock. The session may be about to end. */
static struct session *find(struct snapshot_sender *x, uint64_t id)
{
	struct session *s = x->sessions;
	while (s && s->id != id)
		s = s->next;
	return s;
}

void snapshot_send_give_up(struct snapshot_sender *x, uint64_t session, const char *why)
{
	pthread_mutex_lock(&x->lock);
	struct session *s = find(x, session);
	if (s && !s->err.status)
		weir_fail(&s->err, WEIR_E_CANCELLED, "partition %u: %s", s->partition, why);
	wake(x);
	pthread_mutex_unlock(&x->lock);
}

/* --- The learner's connection */

static weir_status attach(struct session *s, uint64_t from, const struct snapshot_sink *sink, weir_error *err)
{
	if (from < s->received || from > s->made)
		return weir_fail(err, WEIR_E_INVALID,
		                 "partition %u: frame %" PRIu64 " of its snapshot is not kept, but %" PRIu64 " to %" PRIu64, s->partition,
		                 from, s->received, s->made);
	if (s->attached)
		s->sink.ended(s->sink.arg, WEIR_E_CANCELLED, "it goes on over another connection");
	s->attached = true;
	s->sink = *sink;
	s->sent = from;
	s->heard_ms = now_ms(s->sender);
	return WEIR_OK;
}

weir_status snapshot_send_attach(struct snapshot_sender *x, uint64_t session, uint64_t from, const struct snapshot_sink *sink,
                                 weir_error *err)
{
	pthread_mutex_lock(&x->lock);
	struct session *s = find(x, session);
	weir_status status = s && !s->err.status
	                         ? attach(s, from, sink, err)
	                         : weir_fail(err, WEIR_E_NOT_FOUND, "there is no snapshot session %" PRIu64 " any more", session);
	wake(x);
	pthread_mutex_unlock(&x->lock);
	return status;
}

void snapshot_send_detach(struct snapshot_sender *x, uint64_t session, const void *arg)
{
	pthread_mutex_lock(&x->lock);
	struct session *s = find(x, session);
	if (s && s->attached && s->sink.arg == arg)
		s->attached = false;
	pthread_mutex_unlock(&x->lock);
}

void snapshot_send_received(struct snapshot_sender *x, uint64_t session, uint64_t next)
{
	pthread_mutex_lock(&x->lock);
	struct session *s = find(x, session);
	if (s && next <= s->sent) {
		s->heard_ms = now_ms(x);
		if (next > s->received)
			s->received = next;
		forget_below(s, s->received);
		wake(x);
	}
	pthread_mutex_unlock(&x->lock);
}
