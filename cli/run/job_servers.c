#include "cli/run/job_servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/core/ports.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_state.h"
#include "common/system/disk.h"

enum { ANSWER_MS = 500 }; /* for a connection to a server of this machine or its network */

void job_servers_ledger_file(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/ledger.address", job->run_dir);
}

/* Splits "HOST:PORT". */
weir_status job_servers_split_listen(const char *listen, char *host, size_t host_bytes, unsigned *port, weir_error *err)
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

/* Returns the address of server `index`, as far as the job file gives it. */
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
	else if (job_servers_split_listen(job->cluster.listen, host, sizeof host, &port, NULL) == WEIR_OK && port > 0)
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
	const weir_status status = disk_system()->ops->lock(disk_system(), path, who, &lock, err);
	if (status == WEIR_OK)
		disk_system()->ops->close(lock);
	return status;
}

weir_status job_servers_check_idle(const struct job *job, const char *who, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX && status == WEIR_OK; i++)
		status = check_folder(job, i, who, err);
	for (uint32_t i = 0; i < job->cluster.servers && status == WEIR_OK; i++)
		if (known_address(job, i, address) && ports_answer(address, ANSWER_MS))
			status = weir_fail(
			    err, WEIR_E_BUSY,
			    "server-%u of job %s seems to run: something answers at %s. Stop the job's servers first, or change its address",
			    i, job->name, address);
	return status;
}

/* Adds an address to "A,B". */
void job_servers_add_place(char out[JOB_PLACES_BYTES], const char *address)
{
	const size_t used = strlen(out);
	snprintf(out + used, JOB_PLACES_BYTES - used, "%s%s", used ? "," : "", address);
}

void job_servers_absolute(char places[JOB_PLACES_BYTES])
{
	char *given = strdup(places), *rest = given, cwd[WEIR_PATH_BYTES_MAX];
	const bool known = given && getcwd(cwd, sizeof cwd);
	places[0] = known ? '\0' : places[0];
	for (char *at; known && (at = strsep(&rest, ","));) {
		char path[WEIR_ADDRESS_BYTES_MAX];
		const bool relative = strncmp(at, "unix:", 5) == 0 && at[5] != '/';
		const int n = relative ? snprintf(path, sizeof path, "unix:%s/%s", cwd, at + 5) : 0;
		const size_t room = sizeof(((struct sockaddr_un *)0)->sun_path);
		const bool fits = n > 0 && (size_t)n < sizeof path && (size_t)n - strlen("unix:") < room && !strchr(path, ',');
		job_servers_add_place(places, fits ? path : at);
	}
	free(given);
}

/* Returns HOST:PORT of the servers that may have the ledger, by cluster.listen. False:
 * cluster.listen does not give it. */
static bool places_by_listen(const struct job *job, char out[JOB_PLACES_BYTES], weir_error *err)
{
	char host[WEIR_ADDRESS_BYTES_MAX], address[WEIR_ADDRESS_BYTES_MAX + 16];
	unsigned port = 0;
	out[0] = '\0';
	if (strcmp(job->cluster.listen, "auto") == 0 ||
	    job_servers_split_listen(job->cluster.listen, host, sizeof host, &port, err) || port == 0)
		return false;
	for (uint32_t i = 0; i < job_ledger_places_count(job); i++) {
		snprintf(address, sizeof address, "%s:%u", host, port + i);
		job_servers_add_place(out, address);
	}
	return true;
}

weir_status job_servers_find_ledger(const struct job *job, const char *at, char out[JOB_PLACES_BYTES], weir_error *err)
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
	job_servers_ledger_file(job, path);
	const bool used = run_dir_is_used(job);
	if (used && disk_read_file(disk_system(), path, JOB_PLACES_BYTES, &text, &bytes, NULL) == WEIR_OK) {
		snprintf(out, JOB_PLACES_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
		free(text);
		return WEIR_OK;
	}
	if (used)
		return weir_fail(err, WEIR_E_UNAVAILABLE, "job %s is about to start: there is no %s yet", job->name, path);
	if (run_state_read(job->run_dir, &ended, &why) != WEIR_E_NOT_FOUND) /* the job ran here */
		return run_dir_not_running(job, err);
	weir_error unread = {0};
	if (places_by_listen(job, out, &unread))
		return WEIR_OK;
	return unread.status ? weir_fail(err, unread.status, "%s", unread.text) : run_dir_not_running(job, err);
}
