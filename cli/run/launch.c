/* Starts the processes of a job on this machine (their command lines: docs/PROGRAMS.md). */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/ports.h"
#include "cli/run/run_dir.h"
#include "cli/run/train.h"
#include "common/system/disk.h"
#include "common/web/http_server.h"
#include "proto/rpc/rpc_address.h"

enum { ANSWER_MS = 500 }; /* for a connection to a server of this machine or its network */

/* --- Addresses */

static void ledger_file(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/ledger.address", job->run_dir);
}

/* Splits "HOST:PORT". */
static weir_status split_listen(const char *listen, char *host, size_t host_bytes, unsigned *port, weir_error *err)
{
	const char *colon = strrchr(listen, ':');
	char *end = NULL;
	unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;
	if (!colon || colon == listen || end == colon + 1 || *end || number > 65535)
		return weir_fail(err, WEIR_E_INVALID, "cluster.listen is '%s': expected auto, HOST:PORT or HOST:0", listen);
	snprintf(host, host_bytes, "%.*s", (int)(colon - listen), listen);
	*port = (unsigned)number;
	return WEIR_OK;
}

/* Where server `index` listens, as far as the job file says. */
static bool known_address(const struct job *job, uint32_t index, char out[WEIR_ADDRESS_BYTES_MAX])
{
	char host[WEIR_ADDRESS_BYTES_MAX];
	unsigned port = 0;
	int n = 0;
	if (job->cluster.servers_at_count > 0)
		n = snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%s",
		             index < job->cluster.servers_at_count ? job->cluster.servers_at[index] : "");
	else if (strcmp(job->cluster.listen, "auto") == 0)
		n = snprintf(out, WEIR_ADDRESS_BYTES_MAX, "unix:%s/server-%u.sock", job->run_dir, index);
	else if (split_listen(job->cluster.listen, host, sizeof host, &port, NULL) == WEIR_OK && port > 0)
		n = snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%.200s:%u", host, port + index);
	return n > 0 && n < (int)WEIR_ADDRESS_BYTES_MAX;
}

static weir_status check_folder(const struct job *job, uint32_t index, const char *who, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX + 32], path[WEIR_PATH_BYTES_MAX + 64];
	struct disk_file *lock = NULL;
	job_server_dir(job, index, folder);
	snprintf(path, sizeof path, "%s/LOCK", folder);
	if (access(path, F_OK) != 0)
		return WEIR_OK;
	const weir_status s = disk_system()->ops->lock(disk_system(), path, who, &lock, err);
	if (s == WEIR_OK)
		disk_system()->ops->close(lock);
	return s;
}

weir_status launch_check_idle(const struct job *job, const char *who, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	weir_status s = WEIR_OK;
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX && s == WEIR_OK; i++)
		s = check_folder(job, i, who, err);
	for (uint32_t i = 0; i < job->cluster.servers && s == WEIR_OK; i++)
		if (known_address(job, i, address) && ports_answer(address, ANSWER_MS))
			s = weir_fail(
			    err, WEIR_E_BUSY,
			    "server-%u of job %s seems to run: something answers at %s. Stop the job's servers first, or change its address",
			    i, job->name, address);
	return s;
}

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
		weir_status s = split_listen(job->cluster.listen, host, sizeof host, &port, err);
		if (s != WEIR_OK || port == 0)
			return s != WEIR_OK ? s : ports_pick(host, job->cluster.servers, t->addresses, err);
	}
	for (uint32_t i = 0; i < job->cluster.servers; i++) {
		int n = port ? snprintf(t->addresses[i], sizeof *t->addresses, "%.200s:%u", host, port + i)
		             : snprintf(t->addresses[i], sizeof *t->addresses, "unix:%s/server-%u.sock", job->run_dir, i);
		if (n >= (int)sizeof *t->addresses)
			return weir_fail(err, WEIR_E_LIMIT,
			                 "the run directory %s is too long for a socket's path: set cluster.listen to 127.0.0.1:0",
			                 job->run_dir);
		weir_status s = rpc_address_check(t->addresses[i], &why);
		if (s != WEIR_OK)
			return weir_fail(err, s, "server-%u at %s", i, why.text);
	}
	return WEIR_OK;
}

weir_status launch_check_pages(const struct job *job, const char *http, weir_error *err)
{
	const uint32_t processes = job->cluster.servers + job->cluster.workers + 1; /* the evaluator */
	char address[WEIR_ADDRESS_BYTES_MAX];
	weir_error why = {0};
	weir_status s = http ? http_server_check(http, &why) : WEIR_OK;
	if (s != WEIR_OK)
		return weir_fail(err, s, "--http: %s", why.text);
	for (uint32_t i = 0; i < processes && job->metrics.port > 0 && job->cluster.servers_at_count == 0 && s == WEIR_OK; i++)
		if (job_monitor_address(job, i, address))
			s = http_server_check(address, &why);
	return s == WEIR_OK ? WEIR_OK : weir_fail(err, s, "metrics.port: %s", why.text);
}

/* Adds an address to "A,B". */
static void add_place(char out[JOB_PLACES_BYTES], const char *address)
{
	const size_t used = strlen(out);
	snprintf(out + used, JOB_PLACES_BYTES - used, "%s%s", used ? "," : "", address);
}

/* HOST:PORT of the servers that may have the ledger, by cluster.listen. False: it does not say. */
static bool places_by_listen(const struct job *job, char out[JOB_PLACES_BYTES], weir_error *err)
{
	char host[WEIR_ADDRESS_BYTES_MAX], address[WEIR_ADDRESS_BYTES_MAX + 16];
	unsigned port = 0;
	out[0] = '\0';
	if (strcmp(job->cluster.listen, "auto") == 0 || split_listen(job->cluster.listen, host, sizeof host, &port, err) || port == 0)
		return false;
	for (uint32_t i = 0; i < job_ledger_places_count(job); i++) {
		snprintf(address, sizeof address, "%s:%u", host, port + i);
		add_place(out, address);
	}
	return true;
}

weir_status launch_find_ledger(const struct job *job, const char *at, char out[JOB_PLACES_BYTES], weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32], *text = NULL;
	size_t bytes = 0;
	struct run_state ended;
	weir_error why = {0};
	if (at) {
		snprintf(out, JOB_PLACES_BYTES, "%s", at);
		return WEIR_OK;
	}
	if (job_ledger_places(job, out))
		return WEIR_OK;
	ledger_file(job, path);
	const bool used = run_dir_is_used(job);
	if (used && disk_read_file(disk_system(), path, JOB_PLACES_BYTES, &text, &bytes, NULL) == WEIR_OK) {
		snprintf(out, JOB_PLACES_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
		free(text);
		return WEIR_OK;
	}
	if (used)
		return weir_fail(err, WEIR_E_UNAVAILABLE, "`weir train` is about to start job %s: there is no %s yet", job->name, path);
	if (run_state_read(job->run_dir, &ended, &why) != WEIR_E_NOT_FOUND) /* it ran here */
		return run_dir_not_running(job, err);
	weir_error unread = {0};
	if (places_by_listen(job, out, &unread))
		return WEIR_OK;
	return unread.status ? weir_fail(err, unread.status, "%s", unread.text) : run_dir_not_running(job, err);
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

/* What was accepted, now or in an earlier start of the run: the ledger may go back to a checkpoint from before. */
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

/* "A,B,C" in malloc'ed memory. */
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
	weir_status s = WEIR_OK;
	for (uint32_t i = 0; i < t->job->cluster.servers && s == WEIR_OK; i++)
		s = start_server(t, i, uuid, all, err);
	free(all);
	for (uint32_t i = 0; i < supervisor_count(t->supervisor) && s == WEIR_OK; i++)
		if (supervisor_child(t->supervisor, i)->role == CHILD_SERVER)
			s = supervisor_wait_ready(t->supervisor, supervisor_child(t->supervisor, i), timeout_ms, err);
	return s;
}

/* run.json says what the servers have. A run whose replicas it does not say was begun with others, perhaps. */
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
	weir_status s = start_servers(t, err);
	if (s == WEIR_OK)
		s = keep_shape(t, err);
	if (s != WEIR_OK)
		return s;
	char places[JOB_PLACES_BYTES] = "";
	for (uint32_t i = 0; i < job_ledger_places_count(t->job); i++)
		add_place(places, t->addresses[i]);
	ledger_file(t->job, path);
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
	live_note(&t->live, "starting from the weights in %s", t->run.warm_start);
	weir_status s = launch_find_ledger(t->job, NULL, ledger, err);
	struct child *c = s == WEIR_OK ? supervisor_add(t->supervisor, CHILD_IMPORTER, "import", "weir", err) : NULL;
	if (!c)
		return err->status;
	child_argument(c, "import");
	common_arguments(t, c);
	accept_arguments(t, c);
	const char *arguments[] = {"--at", ledger, "--in", t->run.warm_start};
	for (unsigned i = 0; i < sizeof arguments / sizeof *arguments; i++)
		child_argument(c, arguments[i]);
	s = child_start(t->supervisor, c, false, err);
	if (s != WEIR_OK)
		return s;
	(void)supervisor_end(t->supervisor, CHILD_IMPORTER, WEIR_RECOVERY_TIMEOUT_MS);
	if (!child_succeeded(c)) {
		child_describe_end(c, end, sizeof end);
		return weir_fail(err, WEIR_E_INVALID, "the weights to begin with: the import %s", end);
	}
	t->run.warm_start[0] = '\0'; /* all of it is durable: it is not to be done again over what is trained from here on */
	return t->job->cluster.servers_at_count > 0 ? WEIR_OK : run_state_write(t->job->run_dir, &t->run, err);
}

weir_status launch_workers(struct train *t, weir_error *err)
{
	char name[WEIR_NAME_BYTES_MAX], ledger[JOB_PLACES_BYTES];
	weir_status s = launch_find_ledger(t->job, NULL, ledger, err);
	for (uint32_t i = 0; i < t->job->cluster.workers && s == WEIR_OK; i++) {
		snprintf(name, sizeof name, "worker-%u", i);
		s = start_worker(t, CHILD_TRAINER, name, ledger, err);
	}
	if (s == WEIR_OK)
		s = start_worker(t, CHILD_EVALUATOR, "evaluator", ledger, err);
	return s;
}

void launch_end(struct train *t, uint32_t timeout_ms)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	supervisor_end(t->supervisor, CHILD_TRAINER, 0);
	supervisor_end(t->supervisor, CHILD_EVALUATOR, 0);
	supervisor_signal(t->supervisor, CHILD_SERVER, SIGTERM);
	supervisor_end(t->supervisor, CHILD_SERVER, timeout_ms);
	coordinator_end(t);
	if (!t->addresses)
		return;
	ledger_file(t->job, path);
	unlink(path);
	run_dir_remove_temporaries(t->job);
	for (uint32_t i = 0; i < t->job->cluster.servers; i++) /* of servers that had to be killed */
		if (strncmp(t->addresses[i], "unix:", 5) == 0)
			unlink(t->addresses[i] + 5);
	free(t->addresses);
	t->addresses = NULL;
}
