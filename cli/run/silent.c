#include "cli/run/silent.h"
#include "cli/run/launch.h"

#include "cli/run/train.h"

/* Returns the server's process if it belongs to this run. */
static const struct child *process_of(struct supervisor *children, uint32_t server)
{
	for (uint32_t i = 0; i < supervisor_count(children); i++) {
		const struct child *c = supervisor_child(children, i);
		if (c->role == CHILD_SERVER && launch_server_index(c) == server)
			return c;
	}
	return NULL;
}

/* Tells whether the server restarts or recovers; other messages report that. */
static bool is_starting(const struct child *c, const struct silent_server *v)
{
	return c && (c->state != CHILD_RUNNING || v->heard_ms < c->started_ms);
}

/* Reports a disk that takes seconds for a sync, or that has recovered. */
static void look_at_disk(struct silent_server *known, struct progress_line *l, const struct overview_server *v, uint32_t i)
{
	if (v->disk_slow == known->told_slow)
		return;
	known->told_slow = v->disk_slow;
	if (v->disk_slow)
		progress_line_note(l, "server %u (%s): its disk is slow: a sync of its log takes %.1f s", i, v->address,
		                   (double)v->sync_ms / 1e3);
	else
		progress_line_note(l, "server %u: its disk is well again", i);
}

/* Tells whether to report the server now: once, after WEIR_DEAD_PEER_MS of silence. */
static bool falls_silent(struct silent_server *v, int64_t now_ms)
{
	v->since_ms = v->since_ms ? v->since_ms : now_ms;
	if (v->told || now_ms - v->since_ms < WEIR_DEAD_PEER_MS)
		return false;
	return v->told = true;
}

static void look_at_server(struct silent *s, struct progress_line *l, struct supervisor *children, const struct overview *now,
                           uint32_t i, int64_t now_ms)
{
	const struct overview_server *v = &now->servers[i];
	const struct child *c = process_of(children, i);
	struct silent_server *known = &s->servers[i];
	if (v->answered && !v->stuck[0]) {
		if (known->told)
			progress_line_note(l, "server %u answers again", i);
		*known = (struct silent_server){.heard_ms = now_ms, .told_slow = known->told_slow};
		look_at_disk(known, l, v, i);
	} else if (is_starting(c, known)) {
		known->since_ms = 0;
		known->told = false;
	} else if (v->stuck[0] && !known->told) {
		known->told = true;
		s->count++;
		progress_line_note(l, "server %u (pid %u) is stuck: its thread %s has not run for %.1f s%s%s", i, v->pid, v->stuck,
		                   (double)v->stuck_ms / 1e3, c ? "; its log: " : "", c ? c->log_path : "");
	} else if (!v->answered && falls_silent(known, now_ms)) {
		s->count++;
		progress_line_note(l, "server %u (%s%s) has answered nothing for %u s: it is stuck, stopped, or cut off%s%s", i,
		                   v->address, c ? ", whose process lives" : "", WEIR_DEAD_PEER_MS / 1000, c ? "; its log: " : "",
		                   c ? c->log_path : "");
	}
}

static bool is_any_starting(const struct silent *s, struct supervisor *children)
{
	for (uint32_t i = 0; i < supervisor_count(children); i++) {
		const struct child *c = supervisor_child(children, i);
		if (c->role == CHILD_SERVER && is_starting(c, &s->servers[launch_server_index(c)]))
			return true;
	}
	return false;
}

/* Reports a silent ledger. Without its answer the server that hosts it is unknown. */
static void note_ledger(struct silent *s, struct progress_line *l, struct supervisor *children, int64_t now_ms)
{
	if (is_any_starting(s, children) || !falls_silent(&s->ledger, now_ms))
		return;
	s->count++;
	progress_line_note(
	    l,
	    "the ledger has answered nothing for %u s, and all servers' processes live: one is stuck, stopped, or cut off; its "
	    "log says so",
	    WEIR_DEAD_PEER_MS / 1000);
}

void silent_look(struct silent *s, struct progress_line *l, struct supervisor *children, const struct overview *now,
                 int64_t now_ms)
{
	if (!now) {
		note_ledger(s, l, children, now_ms);
		return;
	}
	if (s->ledger.told)
		progress_line_note(l, "the ledger answers again");
	s->ledger = (struct silent_server){0};
	for (uint32_t i = 0; i < now->servers_count && i < WEIR_SERVERS_MAX; i++)
		look_at_server(s, l, children, now, i, now_ms);
}
