/* The main loop of a run: ends of children, signals, and the progress line. One thread,
 * woken by a signalfd.
 *
 * A killed worker restarts; meanwhile its work is leased to others. A killed server restarts if its
 * partitions have replicas, which meanwhile continue, or if its log is on disk, in which case the
 * workers wait for it. Otherwise its data are lost and the job ends. The first signal to end
 * (stop_signals.h) drains: workers finish their batch. The second signal kills. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/run/job_loop.h"
#include "cli/run/job_notes.h"
#include "cli/run/launch.h"
#include "cli/run/other_launches.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_track.h"
#include "cli/run/train.h"

enum {
	DRIVE_POLL_MS = 250,    /* between two polls of the job */
	DRIVE_ANSWER_MS = 1000, /* a slower status answer is skipped */
	/* for workers to notice and log the loss of a server */
	DRIVE_LAST_WORDS_MS = WEIR_DEAD_PEER_MS + 1000,
	/* part of the drain time that is reserved for the servers */
	DRIVE_SERVERS_MS = 2000,
	/* at the end: wait for partitions that have no primary at that time */
	DRIVE_PARTITIONS_MS = 20000,
	/* at the end: for other launches to read the job's last state */
	DRIVE_OTHERS_MS = 3000
};

/* Records a failure; only the first one counts. */
static void fail(struct train *t, const weir_error *e)
{
	if (t->failure.status == WEIR_OK)
		t->failure = *e;
}

static void fail_as_ledger_says(struct train *t)
{
	weir_error e = {0};
	weir_fail(&e, WEIR_E_STATE, "%s", t->seen.failure[0] ? t->seen.failure : "the ledger says that the job has failed");
	fail(t, &e);
}

static void begin_end(struct train *t, uint32_t patience_ms)
{
	if (t->give_up_ms == 0)
		t->give_up_ms = clock_ms(t->clock) + patience_ms;
}

static void signal_workers(struct train *t, int signal)
{
	supervisor_signal(t->supervisor, CHILD_TRAINER, signal);
	supervisor_signal(t->supervisor, CHILD_EVALUATOR, signal);
}

/* --- Ends of children */

static bool is_started_again(struct train *t, struct child *c)
{
	/* or other servers have it */
	const bool has_all = t->job->cluster.log == JOB_LOG_DISK || t->job->cluster.replicas > 1;
	return t->give_up_ms == 0 && child_killed(c) && has_all && supervisor_plan_restart(t->supervisor, c);
}

/* Tells whether some server of this run lives or will restart, or a server that was added by other
 * means lives. */
static bool is_any_server_left(const struct train *t)
{
	bool left = supervisor_alive(t->supervisor, CHILD_SERVER) > 0;
	for (uint32_t i = t->job->cluster.servers; i < t->seen.servers_count; i++)
		left |= t->seen.servers[i].answered;
	return left;
}

static void on_server_end(struct train *t, struct child *c)
{
	char end[WEIR_ERROR_TEXT_BYTES / 2], advice[WEIR_ERROR_TEXT_BYTES / 4];
	weir_error e = {0};
	const bool again = is_started_again(t, c), replicated = t->job->cluster.replicas > 1;
	const bool replaced = replicated && is_any_server_left(t);
	child_describe_end(c, end, sizeof end);
	t->servers_lost++;
	replicas_lost(&t->replicas, launch_server_index(c), clock_ms(t->clock));
	if (again || replaced) {
		progress_line_note(&t->progress, "%s (pid %d) %s: %s, and %s", c->name, (int)c->last_pid, end,
		                   again ? "it is started again" : "it is not started again",
		                   replaced ? "others go on with its partitions" : "recovers from its log");
		return;
	}
	t->server_gone = true;
	run_dir_advice(t->job, advice, sizeof advice);
	weir_fail(&e, WEIR_E_UNAVAILABLE, "%s (%s, pid %d) %s%s. %s; %s", c->name, c->address, (int)c->last_pid, end,
	          replicated ? ", and no other server is left" : "",
	          t->job->cluster.log == JOB_LOG_DISK ? "Remove the cause" : "With `log: memory` what it held is lost", advice);
	progress_line_note(&t->progress, "%s", e.text);
	fail(t, &e);
	begin_end(t, DRIVE_LAST_WORDS_MS);
}

/* Handles the end of etcd. Until it restarts, roles do not change, and training continues. */
static void on_coordinator_end(struct train *t, struct child *c)
{
	char end[WEIR_ERROR_TEXT_BYTES / 2];
	child_describe_end(c, end, sizeof end);
	const bool again = t->give_up_ms == 0 && supervisor_plan_restart(t->supervisor, c);
	progress_line_note(&t->progress, "%s (pid %d) %s: %s", c->name, (int)c->last_pid, end,
	                   again ? "it is started again; until then partitions stay where they are"
	                         : "partitions stay where they are from now on, and a server that is lost now is not replaced");
}

static void on_worker_end(struct train *t, struct child *c)
{
	char end[WEIR_ERROR_TEXT_BYTES / 2];
	weir_error e = {0};
	t->others.since_ms = clock_ms(t->clock);
	if (child_succeeded(c))
		return;
	child_describe_end(c, end, sizeof end);
	t->workers_killed += child_killed(c) && c->role == CHILD_TRAINER;
	if (t->give_up_ms > 0) {
		progress_line_note(&t->progress, "%s (pid %d) %s", c->name, (int)c->last_pid, end);
		return;
	}
	bool again = child_killed(c) && supervisor_plan_restart(t->supervisor, c);
	const char *work = c->role == CHILD_TRAINER ? "its work goes to the others" : "passes wait for it";
	if (again)
		progress_line_note(&t->progress, "%s (pid %d) %s: %s, and it is started again (%u of %u)", c->name, (int)c->last_pid, end,
		                   work, c->restarts, WEIR_CHILD_RESTARTS_MAX);
	else
		progress_line_note(&t->progress, "%s (pid %d) %s", c->name, (int)c->last_pid, end);
	if (supervisor_alive(t->supervisor, c->role) > 0)
		return;
	weir_fail(&e, WEIR_E_UNAVAILABLE, "no %s is left: %s %s (its log: %s)", c->role == CHILD_TRAINER ? "worker" : "evaluator",
	          c->name, end, c->log_path);
	if (other_launches_served(t)) {
		t->others.failure = e;
		return;
	}
	fail(t, &e);
	signal_workers(t, SIGTERM);
	begin_end(t, DRIVE_LAST_WORDS_MS);
}

static void reap(struct train *t)
{
	struct child *c;
	while ((c = supervisor_reap(t->supervisor))) {
		if (c->role == CHILD_SERVER)
			on_server_end(t, c);
		else if (c->role == CHILD_COORDINATOR)
			on_coordinator_end(t, c);
		else
			on_worker_end(t, c);
	}
	if (t->give_up_ms == 0 && supervisor_restart_due(t->supervisor, &t->failure) != WEIR_OK)
		begin_end(t, 0);
}

/* Ends the job if its run directory is gone. The job then has no place for weights, logs and data;
 * processes would fail one by one, each with its own message. */
static void look_for_run_dir(struct train *t)
{
	weir_error e = {0};
	if (t->give_up_ms > 0 || run_dir_is_there(t->job, t->run_dir_fd))
		return;
	weir_fail(&e, WEIR_E_NOT_FOUND,
	          "the run directory %s was deleted or moved while the job ran: what it held is lost to the job; run it again",
	          t->job->run_dir);
	progress_line_note(&t->progress, "%s", e.text);
	fail(t, &e);
	t->server_gone = true;
	begin_end(t, 0);
}

/* --- Signals */

static void on_stop_signal(struct train *t, int signal)
{
	if (t->stop_signal) {
		progress_line_note(&t->progress, "%s again: everything is killed", strsignal(signal));
		t->stop_at_once = true;
		return;
	}
	t->stop_signal = signal;
	if (!t->kind->start_workers) {
		progress_line_note(&t->progress, "%s: the servers end", strsignal(signal));
		return;
	}
	progress_line_note(&t->progress, "%s: workers finish their batch and leave (at most %u s; once more kills)",
	                   strsignal(signal), WEIR_DRAIN_MS / 1000);
	signal_workers(t, SIGTERM);
	begin_end(t, WEIR_DRAIN_MS - DRIVE_SERVERS_MS);
}

/* The other end of the watched pipe writes nothing; it closes, by whatever end its process has. */
static void read_watch(struct train *t)
{
	char ignored[64];
	const ssize_t n = read(t->watch_fd, ignored, sizeof ignored);
	if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
		return;
	t->watch_closed = true;
	t->watch_fd = -1;
	progress_line_note(&t->progress, "the starter is gone: the servers end");
}

static void read_signals(struct train *t, int timeout_ms)
{
	struct pollfd p[] = {{.fd = t->signal_fd, .events = POLLIN}, {.fd = t->watch_fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	if (poll(p, 2, timeout_ms) <= 0)
		return;
	if (p[1].revents)
		read_watch(t);
	while (read(t->signal_fd, &info, sizeof info) == sizeof info)
		if (info.ssi_signo != SIGCHLD) /* children are reaped in every iteration */
			on_stop_signal(t, (int)info.ssi_signo);
}

/* Tells whether the evaluator has stalled. The last evaluation may take long; the loop waits for it
 * unless the evaluator has stalled. */
static bool evaluator_has_stalled(const struct train *t)
{
	for (uint32_t i = 0; i < t->seen.workers_count; i++)
		if (t->seen.workers[i].evaluator && t->seen.workers[i].stall.now)
			return true;
	return false;
}

/* Kills workers that do not leave after the job has finished (because they are stopped or stuck).
 * Trainers of other programs may still score or save their model. */
static void end_stragglers(struct train *t)
{
	if (t->job->foreign || t->finished_ms == 0 || clock_ms(t->clock) < t->finished_ms + WEIR_DRAIN_MS)
		return;
	if (supervisor_alive(t->supervisor, CHILD_TRAINER) > 0)
		progress_line_note(&t->progress, "%u workers did not leave in %u s after the end of the job and are killed",
		                   supervisor_stop(t->supervisor, CHILD_TRAINER, 0), WEIR_DRAIN_MS / 1000);
	if (supervisor_alive(t->supervisor, CHILD_EVALUATOR) > 0 && evaluator_has_stalled(t)) {
		supervisor_stop(t->supervisor, CHILD_EVALUATOR, 0);
		progress_line_note(&t->progress, "the evaluator does not move, the job has ended without it, and it is killed");
	}
}

/* --- Polling the job */

/* Records the state of a job that others may have trained before, at the first poll. (A new job
 * starts with nothing, however late its first poll is.) */
static void note_beginning(struct train *t, const struct overview *now)
{
	if (!t->resume && t->job->cluster.servers_at_count == 0)
		return;
	t->rows_before = now->rows;
	t->was_finished = now->state == JOB_FINISHED;
	t->curve.known = curve_complete(now);
}

static void note_rows(struct train *t, const struct overview *now, int64_t now_ms)
{
	uint64_t before = t->seen_any ? t->seen.rows : t->rows_before;
	if (now->rows == before)
		return;
	t->last_rows_ms = now_ms - (int64_t)now->rows_still_ms;
	if (t->first_rows_ms == 0) {
		t->first_rows = now->rows;
		t->first_rows_ms = t->last_rows_ms;
	}
}

/* Discards knowledge of the previous generation. */
static void forget_generation(struct train *t, const struct overview *now)
{
	const uint64_t moved = t->replicas.moved;
	replicas_destroy(&t->replicas);
	replicas_init(&t->replicas, t->job->cluster.replicas);
	t->replicas.moved = moved;
	t->replicas.degraded = true;
	t->progress.rows = now->rows;
	t->progress.loss_sum = now->loss_sum;
	t->progress.loss_rows = now->loss_rows;
	t->finished_ms = 0;
}

/* Updates run.json, which `--resume` and `weir restore` continue from. */
static void keep_generation(struct train *t, const struct overview *now)
{
	if (t->job->cluster.servers_at_count > 0)
		return;
	t->run.generation = now->generation;
	snprintf(t->run.restore, sizeof t->run.restore, "%s", now->checkpoint);
	if (run_state_write(t->job->run_dir, &t->run, &t->failure) != WEIR_OK)
		begin_end(t, 0);
}

/* Handles a rewind to a checkpoint since the last poll or, as far as the run knows, before the
 * first one. */
static void note_generation(struct train *t, const struct overview *now)
{
	const uint64_t known = t->seen_any ? t->seen.generation : t->run.generation;
	const uint64_t trained = t->seen_any ? t->seen.batches : now->batches;
	const uint64_t undone = trained > now->batches ? trained - now->batches : 0;
	if (known == 0 || now->generation <= known)
		return;
	progress_line_note(&t->progress,
	                   "the job goes back to checkpoint %s, after %" PRIu64 " batches, as generation %" PRIu64 ": %s; %" PRIu64
	                   " batches that were trained since are undone",
	                   now->checkpoint, now->batches, now->generation, now->rewound[0] ? now->rewound : "it was restored",
	                   undone);
	t->rewinds += now->generation - known;
	t->batches_undone += undone;
	forget_generation(t, now);
	keep_generation(t, now);
}

/* Ends the job because no server has all of something any more and there is no checkpoint to rewind
 * to: training cannot continue with the rest. */
static void end_lost(struct train *t, const char *what)
{
	weir_error e = {0};
	char anew[64];
	if (t->lost || t->give_up_ms > 0)
		return;
	t->lost = true;
	snprintf(anew, sizeof anew, ": `weir %s --fresh`", t->kind->verb);
	weir_fail(&e, WEIR_E_LOST, "%s%s. With checkpoints (checkpoint.every_steps) it goes back by itself", what,
	          t->job->cluster.servers_at_count > 0 ? "" : anew);
	progress_line_note(&t->progress, "%s", what);
	fail(t, &e);
	signal_workers(t, SIGTERM);
	begin_end(t, DRIVE_LAST_WORDS_MS);
}

/* Called when the ledger does not answer: the ledger itself may be lost. */
static void look_for_lost(struct train *t, uint32_t timeout_ms)
{
	char what[WEIR_ERROR_TEXT_BYTES];
	const uint64_t generation = t->seen_any ? t->seen.generation : t->run.generation;
	if (t->job->cluster.replicas > 1 && status_poller_find_lost(t->poller, generation, timeout_ms, what))
		end_lost(t, what);
}

static bool look(struct train *t, uint32_t timeout_ms, bool force)
{
	struct overview now;
	weir_error ignored = {0};
	const int64_t asked_ms = clock_ms(t->clock);
	if (status_poller_poll(t->poller, timeout_ms, &now, &ignored) != WEIR_OK) {
		overview_destroy(&now);
		silent_look(&t->silent, &t->progress, t->supervisor, NULL, clock_ms(t->clock));
		look_for_lost(t, timeout_ms);
		return false;
	}
	int64_t now_ms = clock_ms(t->clock);
	/* from a server that has not heard of the rewind yet */
	if (t->seen_any && now.generation < t->seen.generation) {
		overview_destroy(&now);
		return false;
	}
	note_generation(t, &now);
	if (!t->seen_any)
		note_beginning(t, &now);
	note_rows(t, &now, now_ms);
	job_notes_look(t, &now);
	silent_look(&t->silent, &t->progress, t->supervisor, &now, now_ms);
	curve_look(&t->curve, t->seen_any ? &t->seen : NULL, &now, (double)(now_ms - t->workers_ms) / 1e3);
	overview_destroy(&t->seen);
	t->seen = now;
	t->seen_ms = asked_ms;
	t->seen_any = true;
	if (now.state == JOB_FINISHED && t->finished_ms == 0)
		t->finished_ms = now_ms;
	replicas_look(&t->replicas, &t->progress, &t->seen, now_ms);
	if (t->kind->start_workers)
		progress_line_show(&t->progress, &t->seen, now_ms, force);
	run_track_look(t, now_ms);
	if (t->seen.lost[0])
		end_lost(t, t->seen.lost);
	return true;
}

/* --- Chaos */

static void wreak_havoc(struct train *t)
{
	const int64_t now_ms = clock_ms(t->clock);
	if (t->give_up_ms > 0 || t->finished_ms > 0) {
		chaos_stop(&t->chaos);
		return;
	}
	const uint32_t server = chaos_tick(&t->chaos, t->seen_any ? &t->seen : NULL, t->seen_ms, now_ms);
	if (server != WEIR_SERVER_NONE)
		replicas_lost(&t->replicas, server, now_ms);
}

static bool ended(struct train *t)
{
	if (!t->kind->start_workers)
		return t->stop_signal || t->watch_closed;
	if (supervisor_alive(t->supervisor, CHILD_TRAINER) > 0 || supervisor_alive(t->supervisor, CHILD_EVALUATOR) > 0)
		return false;
	return t->give_up_ms > 0 || !other_launches_served(t) || !other_launches_train(t);
}

static bool all_reported(const struct overview *s)
{
	for (uint32_t p = 0; p < s->partitions_count; p++)
		if (!s->partitions[p].reported)
			return false;
	return true;
}

/* Polls until every partition has been reported: a replicated partition may be moving to another
 * server. */
static bool look_at_all(struct train *t)
{
	const int64_t until_ms = clock_ms(t->clock) + (t->job->cluster.replicas > 1 ? DRIVE_PARTITIONS_MS : 0);
	bool answered = look(t, WEIR_CONTROL_TIMEOUT_MS, true);
	while ((!answered || !all_reported(&t->seen)) && !t->lost && !t->stop_signal && clock_ms(t->clock) < until_ms) {
		read_signals(t, DRIVE_POLL_MS);
		reap(t);
		answered = look(t, WEIR_CONTROL_TIMEOUT_MS, true);
	}
	return answered;
}

/* Tells whether a checkpoint is being written, or is due and about to begin: the first one of a
 * short job. */
static bool is_checkpoint_awaited(const struct train *t)
{
	const struct overview_checkpoints *c = &t->seen.checkpoints;
	const uint64_t every = t->job->checkpoint.every_steps;
	return c->running || (every > 0 && t->seen.batches >= every && c->written + c->failed == 0);
}

/* Waits for a checkpoint in progress at the end of the job, for at most the drain time. */
static void await_checkpoint(struct train *t)
{
	const int64_t until_ms = clock_ms(t->clock) + WEIR_DRAIN_MS;
	while (is_checkpoint_awaited(t) && !t->stop_signal && clock_ms(t->clock) < until_ms) {
		read_signals(t, DRIVE_POLL_MS);
		reap(t);
		(void)look(t, WEIR_CONTROL_TIMEOUT_MS, false);
	}
	if (t->seen.checkpoints.running)
		progress_line_note(&t->progress, "a checkpoint was still being written when the job ended, and is given up");
}

/* Tells whether the last poll was sent after another launch's job had finished. Its servers may end
 * before the trainers here. */
static bool has_last_state(const struct train *t)
{
	return t->job->cluster.servers_at_count > 0 && t->finished_ms > 0 && t->seen_ms >= t->finished_ms && all_reported(&t->seen);
}

/* Lets other launches read the last state before the servers end. */
static void await_other_launches(struct train *t)
{
	const int64_t until_ms = clock_ms(t->clock) + DRIVE_OTHERS_MS;
	while (other_launches_served(t) && !t->stop_signal && clock_ms(t->clock) < until_ms) {
		read_signals(t, DRIVE_POLL_MS);
		reap(t);
	}
}

/* Concludes a job whose workers all left normally: the last poll of the ledger decides whether the
 * job is done. */
static void conclude(struct train *t)
{
	weir_error e = {0};
	if (!has_last_state(t) && !look_at_all(t))
		weir_fail(&e, WEIR_E_UNAVAILABLE, "the ledger does not answer; see the servers' logs in %s", t->job->run_dir);
	else if (t->seen.state == JOB_FAILED)
		fail_as_ledger_says(t);
	else if (t->seen.state != JOB_FINISHED && t->others.failure.status != WEIR_OK)
		e = t->others.failure;
	else if (t->seen.state != JOB_FINISHED && !t->stop_signal)
		weir_fail(&e, WEIR_E_STATE, "all workers%s left in pass %u with %u of %u units committed; see their logs in %s",
		          t->range ? " of this launch" : "", t->seen.pass + 1, t->seen.committed, t->seen.units, t->job->run_dir);
	if (e.status != WEIR_OK)
		fail(t, &e);
	else if (t->seen.state == JOB_FINISHED)
		await_checkpoint(t);
	await_other_launches(t);
}

void job_loop_run(struct train *t)
{
	int64_t look_ms = 0;
	while (!ended(t) && !t->stop_at_once && (t->give_up_ms == 0 || clock_ms(t->clock) < t->give_up_ms)) {
		read_signals(t, DRIVE_POLL_MS / 5);
		look_for_run_dir(t);
		reap(t);
		wreak_havoc(t);
		end_stragglers(t);
		if (t->server_gone || clock_ms(t->clock) < look_ms)
			continue;
		look(t, chaos_is_pausing(&t->chaos) ? DRIVE_POLL_MS : DRIVE_ANSWER_MS, false);
		look_ms = clock_ms(t->clock) + DRIVE_POLL_MS;
		if (t->kind->start_workers && t->seen_any && t->seen.state == JOB_FAILED && t->give_up_ms == 0) {
			fail_as_ledger_says(t);
			begin_end(t, DRIVE_LAST_WORDS_MS); /* the workers learn of it too, and leave */
		}
	}
	chaos_stop(&t->chaos);
	if (t->kind->start_workers && !t->server_gone && !t->lost && !t->stop_at_once)
		conclude(t);
	progress_line_end(&t->progress);
}
