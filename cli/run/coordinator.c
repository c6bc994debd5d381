/* The etcd of a run whose partitions have replicas. It is either the one that cluster.coord names,
 * or (static) the run's own: a child process like the servers, on loopback ports that no one else
 * knows. Its folder is RUN_DIR/etcd. With the log on disk, the folder is kept together with the
 * servers' folders, because only etcd records which servers hold all of a partition. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/ports.h"
#include "cli/core/transport.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_dir.h"
#include "cli/run/train.h"
#include "common/system/program.h"
#include "proto/coord/coord_etcd.h"

enum {
	COORDINATOR_POLL_MS = 20,
	COORDINATOR_LATE_MS = 1000, /* the wait is reported after this time */
	COORDINATOR_END_MS = 1000
};

/* --- Choosing the etcd */

bool coordinator_is_ours(const struct job *job)
{
	return job->cluster.replicas > 1 && job->cluster.servers_at_count == 0 && strcmp(job->cluster.coord, "static") == 0;
}

static void folder_of(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/etcd", job->run_dir);
}

weir_status coordinator_remove(const struct job *job, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX + 32];
	folder_of(job, folder);
	return run_dir_remove(folder, err);
}

weir_status coordinator_check_kept(const struct job *job, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX + 32];
	folder_of(job, folder);
	if (!coordinator_is_ours(job) || access(folder, F_OK) == 0)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_NOT_FOUND,
	                 "%s is not there: it says which servers hold all of each partition, and without it nobody knows; `weir %s "
	                 "--fresh` begins anew",
	                 folder, run_dir_verb(job));
}

weir_status coordinator_find(struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	struct coordinator *c = &t->coordinator;
	weir_error why = {0};
	if (!coordinator_is_ours(job))
		return WEIR_OK;
	weir_status status = program_find(c->program, sizeof c->program, "etcd", "etcd-server", getenv("PATH"), &why);
	return status == WEIR_OK
	           ? WEIR_OK
	           : weir_fail(err, status, "cluster.replicas is %u, which needs etcd: %s", job->cluster.replicas, why.text);
}

weir_status coordinator_choose(struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	struct coordinator *c = &t->coordinator;
	if (job->cluster.replicas == 1 || job->cluster.servers_at_count > 0)
		return WEIR_OK;
	if (!coordinator_is_ours(job)) {
		snprintf(c->url, sizeof c->url, "%s", job->cluster.coord);
		return WEIR_OK;
	}
	weir_status status = ports_pick("127.0.0.1", COORDINATOR_PORTS, c->addresses, err);
	snprintf(c->url, sizeof c->url, COORD_ETCD_SCHEME "%s", c->addresses[0]);
	return status;
}

/* --- Waiting for an answer */

/* A session with etcd. It opens once etcd has a leader and so accepts changes. */
struct asking {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct coord *coord;
	_Atomic bool answered;
};

static void on_state(void *arg, enum coord_state state, const char *text)
{
	struct asking *a = arg;
	(void)text;
	if (state == COORD_CONNECTED)
		atomic_store(&a->answered, true);
}

static void on_lease_lost(void *arg, int64_t held_until_ns)
{
	(void)arg, (void)held_until_ns; /* etcd has answered */
}

static weir_status begin_asking(struct asking *a, const struct job *job, const char *url, weir_error *err)
{
	const struct coord_options o = {
	    .lease_ms = WEIR_COORD_LEASE_MS_MIN, .handler = {.state = on_state, .lease_lost = on_lease_lost}, .arg = a};
	const weir_status status = transport_open(&a->rpc, job, NULL, err);
	if (status != WEIR_OK)
		return status;
	a->loop = rpc_loop_create(a->rpc, "coord", err);
	if (!a->loop)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to ask %s", url);
	return coord_etcd_open(&a->coord, a->rpc, a->loop, url, &o, err);
}

static void end_asking(struct asking *a)
{
	coord_close(a->coord);
	if (a->loop)
		rpc_loop_destroy(a->loop);
	if (a->rpc)
		rpc_destroy(a->rpc);
}

static weir_status check_alive(struct train *t, weir_error *err)
{
	struct child *c = t->coordinator.child;
	char end[WEIR_ERROR_TEXT_BYTES / 2];
	if (!c || !supervisor_reap(t->supervisor)) /* there are no other children yet */
		return WEIR_OK;
	child_describe_end(c, end, sizeof end);
	return weir_fail(err, WEIR_E_UNAVAILABLE, "etcd %s (%s)", end, c->log_path);
}

static weir_status wait_for_answer(struct train *t, const struct asking *asking, weir_error *err)
{
	const struct coordinator *c = &t->coordinator;
	const int64_t start_ms = clock_ms(t->clock);
	bool told = false;
	while (!atomic_load(&asking->answered)) {
		const int64_t waited_ms = clock_ms(t->clock) - start_ms;
		weir_status status = check_alive(t, err);
		if (status != WEIR_OK)
			return status;
		if (waited_ms >= WEIR_SERVER_PATIENCE_MS)
			return weir_fail(err, WEIR_E_TIMEOUT, "%s does not answer, or has no leader: start it, or correct cluster.coord",
			                 c->url);
		if (!told && waited_ms >= COORDINATOR_LATE_MS)
			progress_line_note(&t->progress, "waiting for %s, which does not answer yet (at most %u s)", c->url,
			                   WEIR_SERVER_PATIENCE_MS / 1000);
		told = told || waited_ms >= COORDINATOR_LATE_MS;
		status = run_pause(t, COORDINATOR_POLL_MS, c->url, err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

static weir_status await_answer(struct train *t, weir_error *err)
{
	struct asking a = {0};
	weir_status status = begin_asking(&a, t->job, t->coordinator.url, err);
	if (status == WEIR_OK)
		status = wait_for_answer(t, &a, err);
	end_asking(&a);
	return status;
}

/* --- Life */

/* Starts our etcd. It is a single member without peers, so a short election timeout lets it start
 * immediately. */
static weir_status start_ours(struct train *t, weir_error *err)
{
	struct coordinator *c = &t->coordinator;
	char folder[WEIR_PATH_BYTES_MAX + 32], client[WEIR_ADDRESS_BYTES_MAX + 8], peer[WEIR_ADDRESS_BYTES_MAX + 8],
	    cluster[WEIR_ADDRESS_BYTES_MAX + 16];
	folder_of(t->job, folder);
	snprintf(client, sizeof client, "http://%s", c->addresses[0]);
	snprintf(peer, sizeof peer, "http://%s", c->addresses[1]);
	snprintf(cluster, sizeof cluster, "weir=%s", peer);
	const char *arguments[] = {"--name",
	                           "weir",
	                           "--data-dir",
	                           folder,
	                           "--listen-client-urls",
	                           client,
	                           "--advertise-client-urls",
	                           client,
	                           "--listen-peer-urls",
	                           peer,
	                           "--initial-advertise-peer-urls",
	                           peer,
	                           "--initial-cluster",
	                           cluster,
	                           "--heartbeat-interval",
	                           "50",
	                           "--election-timeout",
	                           "250",
	                           "--logger",
	                           "zap",
	                           "--log-outputs",
	                           "stderr"};
	c->child = supervisor_add(t->supervisor, CHILD_COORDINATOR, "etcd", c->program, err);
	if (!c->child)
		return err->status;
	for (unsigned i = 0; i < sizeof arguments / sizeof *arguments; i++)
		child_argument(c->child, arguments[i]);
	return child_start(t->supervisor, c->child, false, err);
}

weir_status coordinator_start(struct train *t, weir_error *err)
{
	const struct coordinator *c = &t->coordinator;
	weir_status status = c->program[0] ? start_ours(t, err) : WEIR_OK;
	return status == WEIR_OK && c->url[0] ? await_answer(t, err) : status;
}

void coordinator_stop(struct train *t)
{
	weir_error ignored = {0};
	if (!t->coordinator.child)
		return;
	supervisor_signal(t->supervisor, CHILD_COORDINATOR, SIGTERM);
	supervisor_stop(t->supervisor, CHILD_COORDINATOR, COORDINATOR_END_MS);
	if (t->job->cluster.log == JOB_LOG_MEMORY)
		(void)coordinator_remove(t->job, &ignored);
	t->coordinator.child = NULL;
}
