/* What makes waiting go on: fetched rows, time, the end; and the pulls that wait.
 *
 * A pull has states of the drawing in partition_record.c. It becomes no entry, and its caller
 * writes the reply.
 *
 *                 partition_pull_ready
 *                          |
 *                          v
 *    +------------------> CHECKED --------------+
 *    |                     |                    | check_pull: it may be answered, or never
 *    |      +--------------+--+                 v
 *    |      | check_pull      | check_pull   ANSWERED
 *    |      v                 v                 ^
 *    |    BEHIND          UNFETCHED             |
 *    |      |                 |                 |
 *    |      | entries are     | the rows        | the deadline (BEHIND alone),
 *    |      | applied         | are in memory   | the end of the partition
 *    +------+-----------------+-----------------+
 *             parked_wake
 *
 * It is BEHIND until its step and the entries that its client knows of are applied. At a replica
 * that is not primary, it is BEHIND until the replica is young enough (partition_follow.c). */
#include <stdlib.h>

#include "server/partition/partition_internal.h"

/* --- Pulls */

static bool step_is_applied(const struct partition *p, const struct record *r)
{
	return r->pull.step_least <= p->steps.closed;
}

/* The entries that the client knows of are applied, or are not in the log: RESUME reports those
 * that a failover has lost. */
static bool floor_is_applied(const struct partition *p, const struct record *r)
{
	return r->pull.applied_least <= p->applied || r->pull.applied_least > p->options.log->ops->last(p->options.log);
}

/* ANSWERED: the pull may be answered, or *status says what went wrong. Else the state in which it
 * waits; UNFETCHED: *ticket is of its rows. */
static enum record_state check_pull(struct partition *p, const struct record *r, const struct cursor *body, uint64_t *ticket,
                                    weir_status *status)
{
	*status = p->moved ? follow_pull(p, r) : floor_is_applied(p, r) ? WEIR_OK : WEIR_E_BUSY;
	if (*status == WEIR_E_BUSY)
		p->parked_behind = true;
	if (*status)
		return *status == WEIR_E_BUSY ? STATE_BEHIND : STATE_ANSWERED;
	if (!step_is_applied(p, r))
		return STATE_BEHIND;
	if (!p->cold)
		return STATE_ANSWERED;
	*status = rows_want(p, r, *body);
	return *status || !rows_missing(p, ticket) ? STATE_ANSWERED : STATE_UNFETCHED;
}

bool partition_pull_ready(struct partition *p, const struct record *r, const struct cursor *body, int64_t deadline_ms,
                          void (*ready)(void *arg, weir_status status), void *arg)
{
	uint64_t ticket = 0;
	weir_status status;
	const enum record_state state = check_pull(p, r, body, &ticket, &status);
	if (state == STATE_ANSWERED && !status)
		return true;
	struct parked *k = state == STATE_ANSWERED ? NULL : malloc(sizeof *k);
	if (!k) {
		ready(arg, status ? status : WEIR_E_MEMORY);
		return false;
	}
	*k = (struct parked){
	    .state = state, .r = r, .body = body, .ticket = ticket, .deadline_ms = deadline_ms, .ready = ready, .arg = arg};
	struct parked **end = &p->parked;
	while (*end)
		end = &(*end)->next;
	*end = k;
	return false;
}

/* The outcome of a parked pull. False: it continues to wait. */
static bool parked_is_over(struct partition *p, struct parked *k, int64_t now_ms, weir_status *status)
{
	const bool rows_are_coming = k->state == STATE_UNFETCHED && k->ticket > p->fetched && !p->moved;
	if (!rows_are_coming)
		k->state = check_pull(p, k->r, k->body, &k->ticket, status);
	if (k->state == STATE_ANSWERED)
		return true;
	if (k->state == STATE_BEHIND) {
		*status = WEIR_E_NOT_CURRENT;
		return k->deadline_ms <= now_ms;
	}
	*status = WEIR_E_UNAVAILABLE; /* no deadline except the end of the partition */
	return now_ms == INT64_MAX;
}

/* In order of arrival. */
void parked_wake(struct partition *p, int64_t now_ms)
{
	struct parked *waiting = p->parked, **end = &p->parked;
	p->parked = NULL;
	while (waiting) {
		struct parked *k = waiting;
		weir_status status;
		waiting = k->next;
		if (parked_is_over(p, k, now_ms, &status)) {
			k->ready(k->arg, status);
			free(k);
			continue;
		}
		k->next = NULL;
		while (*end) /* answering one may have parked another */
			end = &(*end)->next;
		*end = k;
	}
}

/* --- Rows and time */

void rows_fetched(void *arg, uint64_t ticket)
{
	struct partition *p = arg;
	if (ticket > p->fetched)
		p->fetched = ticket;
	commit_continue(p);
	submissions_check_again(p, STATE_UNFETCHED);
	parked_wake(p, INT64_MIN);
}

static void abandon(struct partition *p, enum record_state state)
{
	submissions_end(p, state, WEIR_E_UNAVAILABLE, "the server is stopping");
}

void partition_tick(struct partition *p, int64_t now_ms)
{
	if (p->parked)
		parked_wake(p, now_ms);
	if (now_ms == INT64_MAX) {
		abandon(p, STATE_HELD);
		return;
	}
	if (p->halted)
		return;
	commit_continue(p);
	held_check_again(p);
	evict_tick(p, now_ms);
	if (!p->cold)
		return;
	store_balance(p->store);
	if (p->options.flush_interval_ms && now_ms >= p->flush.next_ms) {
		p->flush.next_ms = now_ms + p->options.flush_interval_ms;
		(void)partition_flush(p, NULL, NULL);
	}
}

void partition_abandon(struct partition *p)
{
	parked_wake(p, INT64_MAX);
	abandon(p, STATE_UNFETCHED);
	abandon(p, STATE_HELD);
	abandon(p, STATE_BEHIND);
	abandon(p, STATE_LOGGED);
	replies_end(p, WEIR_E_UNAVAILABLE);
}
