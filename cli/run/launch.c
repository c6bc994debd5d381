/* Starts the processes of a job on this machine (docs/PROGRAMS.md describes their command
 * lines). */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/ports.h"
#include "cli/run/job_servers.h"
#include "cli/run/launch.h"
#include "cli/run/run_dir.h"
#include "cli/run/train.h"
#include "common/system/disk.h"
#include "common/web/http_server.h"
#include "proto/rpc/rpc_address.h"

/* --- Addresses */

weir_status launch_choose_addresses(struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	char host[WEIR_ADDRESS_BYTES_MAX];
	unsigned port = 0;
	weir_error why = {0};
	if (job->cluster.servers_at_count > 0) /* a cluster started by other means */
		return WEIR_OK;
	t->addresses = calloc(job->cluster.servers, sizeof *t->addresses);
	if (!t->addresses)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %u addresses", job->cluster.servers);
	if (strcmp(job->cluster.listen, "auto") != 0) {
		weir_status status = job_servers_split_listen(job->cluster.listen, host, sizeof host, &port, err);
		if (status != WEIR_OK || port == 0)
			return status != WEIR_OK ? status : ports_pick(host, job->cluster.servers, t->addresses, err);
	}
	for (uint32_t i = 0; i < job->cluster.servers; i++) {
		int n = port ? snprintf(t->addresses[i], sizeof *t->addresses, "%.200s:%u", host, port + i)
		             : snprintf(t->addresses[i], sizeof *t->addresses, "unix:%s/server-%u.sock", job->run_dir, i);
		if (n >= (int)sizeof *t->addresses)
			return weir_fail(err, WEIR_E_LIMIT,
			                 "the run directory %s is too long for a socket's path: set cluster.listen to 127.0.0.1:0",
			                 job->run_dir);
		weir_status status = rpc_address_check(t->addresses[i], &why);
		if (status != WEIR_OK)
			return weir_fail(err, status, "server-%u at %s", i, why.text);
	}
	return WEIR_OK;
}

weir_status launch_check_pages(const struct job *job, const char *http, weir_error *err)
{
	/* workers of ours, plus the evaluator */
	const uint32_t processes = job->cluster.servers + (job->foreign ? 0 : job->cluster.workers + 1);
	char address[WEIR_ADDRESS_BYTES_MAX];
	weir_error why = {0};
	weir_status status = http ? http_server_check(http, &why) : WEIR_OK;
	if (status != WEIR_OK)
		return weir_fail(err, status, "--http: %s", why.text);
	for (uint32_t i = 0; i < processes && job->metrics.port > 0 && job->cluster.servers_at_count == 0 && status == WEIR_OK; i++)
		if (job_monitor_address(job, i, address))
			status = http_server_check(address, &why);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "metrics.port: %s", why.text);
}

/* --- Processes */

static void common_arguments(const struct train *t, struct child *c)
{
	child_argument(c, "--job");
	child_argument(c, t->options.path);
	for (uint32_t i = 0; i < t->options.sets.count; i++) {
		child_argument(c, "--set");
		child_argument(c, t->options.sets.items[i]);
	}
	if (t->options.log_level) {
		child_argument(c, "--log-level");
		child_argument(c, t->options.log_level);
	}
	if (t->options.log_format) {
		child_argument(c, "--log-format");
		child_argument(c, t->options.log_format);
	}
}

static void accept_argument(struct child *c, const char *key)
{
	child_argument(c, "--accept");
	child_argument(c, key);
}

/* Passes on the differences accepted now or in an earlier start of the run: the ledger may rewind
 * to a checkpoint from before. */
static void accept_arguments(const struct train *t, struct child *c)
{
	for (uint32_t i = 0; i < t->accepted.keys.count; i++)
		accept_argument(c, t->accepted.keys.items[i]);
	for (size_t i = 0; t->all_accepted && i < json_list_length(t->all_accepted, "accepted"); i++) {
		struct json *item = json_list_get(t->all_accepted, "accepted", i);
		const char *key = json_get_text(item, "key");
		bool given = !key;
		for (uint32_t k = 0; k < t->accepted.keys.count && key; k++)
			given |= strcmp(key, t->accepted.keys.items[k]) == 0;
		if (!given)
			accept_argument(c, key);
		json_destroy(item);
	}
}

/* Returns "A,B,C" in malloc'ed memory. */
static char *join_addresses(const struct train *t)
{
	uint32_t servers = t->job->cluster.servers;
	char *all = calloc(servers, WEIR_ADDRESS_BYTES_MAX + 1);
	for (uint32_t i = 0; all && i < servers; i++) {
		strcat(all, i ? "," : "");
		strcat(all, t->addresses[i]);
	}
	return all;
}

static weir_status start_server(struct train *t, uint32_t index, const char *uuid, const char *all, weir_error *err)
{
	char name[WEIR_NAME_BYTES_MAX], number[16], generation[24], coord[WEIR_PATH_BYTES_MAX + 16];
	snprintf(name, sizeof name, "server-%u", index);
	snprintf(number, sizeof number, "%u", index);
	snprintf(generation, sizeof generation, "%" PRIu64, t->run.generation);
	struct child *c = supervisor_add(t->supervisor, CHILD_SERVER, name, "weir-server", err);
	if (!c)
		return err->status;
	common_arguments(t, c);
	const char *arguments[] = {"--index",           number,      "--uuid", uuid, "--generation", generation, "--listen",
	                           t->addresses[index], "--servers", all};
	for (unsigned i = 0; i < sizeof arguments / sizeof *arguments; i++)
		child_argument(c, arguments[i]);
	if (t->run.restore[0]) {
		child_argument(c, "--restore");
		child_argument(c, t->run.restore);
	}
	if (t->coordinator.url[0]) {
		snprintf(coord, sizeof coord, "cluster.coord=%s", t->coordinator.url);
		child_argument(c, "--set");
		child_argument(c, coord);
	}
	return child_start(t->supervisor, c, true, err);
}

uint32_t launch_server_index(const struct child *server)
{
	return (uint32_t)strtoul(strchr(server->name, '-') + 1, NULL, 10);
}

static weir_status start_servers(struct train *t, weir_error *err)
{
	char uuid[33];
	const uint32_t timeout_ms =
	    t->job->cluster.log == JOB_LOG_DISK || t->run.restore[0] ? WEIR_RECOVERY_TIMEOUT_MS : WEIR_READY_TIMEOUT_MS;
	run_state_uuid_text(&t->run, uuid);
	char *all = join_addresses(t);
	if (!all)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the servers' addresses");
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < t->job->cluster.servers && status == WEIR_OK; i++)
		status = start_server(t, i, uuid, all, err);
	free(all);
	for (uint32_t i = 0; i < supervisor_count(t->supervisor) && status == WEIR_OK; i++)
		if (supervisor_child(t->supervisor, i)->role == CHILD_SERVER)
			status = supervisor_wait_ready(t->supervisor, supervisor_child(t->supervisor, i), timeout_ms, err);
	return status;
}

/* Records the number of servers and replicas in run.json. If run.json does not give the replicas,
 * an earlier version may have begun the run with a different number, so the number stays
 * unknown. */
static weir_status keep_shape(struct train *t, weir_error *err)
{
	const uint32_t servers = t->job->cluster.servers, replicas = t->job->cluster.replicas;
	const bool known = t->run.servers == 0 || t->run.replicas > 0;
	if (t->run.servers == servers && (t->run.replicas == replicas || !known))
		return WEIR_OK;
	t->run.replicas = known ? replicas : 0;
	t->run.servers = servers;
	return run_state_write(t->job->run_dir, &t->run, err);
}

weir_status launch_servers(struct train *t, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	if (t->job->cluster.servers_at_count > 0)
		return WEIR_OK;
	weir_status status = start_servers(t, err);
	if (status == WEIR_OK)
		status = keep_shape(t, err);
	if (status != WEIR_OK)
		return status;
	char places[JOB_PLACES_BYTES] = "";
	for (uint32_t i = 0; i < job_ledger_places_count(t->job); i++)
		job_servers_add_place(places, t->addresses[i]);
	job_servers_ledger_file(t->job, path);
	return disk_write_file(disk_system(), path, places, strlen(places), err);
}

static weir_status start_worker(struct train *t, enum child_role role, const char *name, const char *ledger, weir_error *err)
{
	struct child *c = supervisor_add(t->supervisor, role, name, "weir-worker", err);
	if (!c)
		return err->status;
	common_arguments(t, c);
	accept_arguments(t, c);
	const char *arguments[] = {"--ledger", ledger, "--name", name, "--role", role == CHILD_EVALUATOR ? "evaluator" : "trainer"};
	for (unsigned i = 0; i < sizeof arguments / sizeof *arguments; i++)
		child_argument(c, arguments[i]);
	return child_start(t->supervisor, c, false, err);
}

weir_status launch_warm_start(struct train *t, weir_error *err)
{
	char ledger[JOB_PLACES_BYTES], end[WEIR_ERROR_TEXT_BYTES / 2];
	if (!t->run.warm_start[0])
		return WEIR_OK;
	progress_line_note(&t->progress, "starting from the weights in %s", t->run.warm_start);
	weir_status status = job_servers_find_ledger(t->job, NULL, ledger, err);
	struct child *c = status == WEIR_OK ? supervisor_add(t->supervisor, CHILD_IMPORTER, "import", "weir", err) : NULL;
	if (!c)
		return err->status;
	child_argument(c, "import");
	common_arguments(t, c);
	accept_arguments(t, c);
	const char *arguments[] = {"--at", ledger, "--in", t->run.warm_start};
	for (unsigned i = 0; i < sizeof arguments / sizeof *arguments; i++)
		child_argument(c, arguments[i]);
	status = child_start(t->supervisor, c, false, err);
	if (status != WEIR_OK)
		return status;
	(void)supervisor_stop(t->supervisor, CHILD_IMPORTER, WEIR_RECOVERY_TIMEOUT_MS);
	if (!child_succeeded(c)) {
		child_describe_end(c, end, sizeof end);
		return weir_fail(err, WEIR_E_INVALID, "the weights to begin with: the import %s", end);
	}
	/* the import is durable; a repetition would overwrite what is trained from here on */
	t->run.warm_start[0] = '\0';
	return t->job->cluster.servers_at_count > 0 ? WEIR_OK : run_state_write(t->job->run_dir, &t->run, err);
}

weir_status launch_workers(struct train *t, weir_error *err)
{
	char name[WEIR_NAME_BYTES_MAX], ledger[JOB_PLACES_BYTES];
	weir_status status = job_servers_find_ledger(t->job, NULL, ledger, err);
	for (uint32_t i = 0; i < t->job->cluster.workers && status == WEIR_OK; i++) {
		snprintf(name, sizeof name, "worker-%u", i);
		status = start_worker(t, CHILD_TRAINER, name, ledger, err);
	}
	if (status == WEIR_OK)
		status = start_worker(t, CHILD_EVALUATOR, "evaluator", ledger, err);
	return status;
}

void launch_stop(struct train *t, uint32_t timeout_ms)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	supervisor_stop(t->supervisor, CHILD_TRAINER, 0);
	supervisor_stop(t->supervisor, CHILD_EVALUATOR, 0);
	supervisor_signal(t->supervisor, CHILD_SERVER, SIGTERM);
	supervisor_stop(t->supervisor, CHILD_SERVER, timeout_ms);
	coordinator_stop(t);
	if (!t->addresses)
		return;
	job_servers_ledger_file(t->job, path);
	unlink(path);
	run_dir_remove_temporaries(t->job);
	for (uint32_t i = 0; i < t->job->cluster.servers; i++) /* of servers that had to be killed */
		if (strncmp(t->addresses[i], "unix:", 5) == 0)
			unlink(t->addresses[i] + 5);
	free(t->addresses);
	t->addresses = NULL;
}
