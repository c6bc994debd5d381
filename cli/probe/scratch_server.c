#include "cli/probe/scratch_server.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/core/ports.h"
#include "common/system/temp_folder.h"
#include "common/tls/certificate.h"

enum { SCRATCH_UNITS = 1 << 20, SCRATCH_END_MS = 3000, CERTIFICATES_VALID_S = 86400 };

static const char job_text[] = "job: scratch\n"
                               "run_dir: %s\n"
                               "cluster: {servers: 1, workers: 1, partitions: %u, lease_ms: 60000, log: %s, lane: %s}\n"
                               "data: {format: criteo, train: none, shuffle: false}\n"
                               "model: {kind: lr}\n";

static const char security_text[] = "security: {certificate: '%s/{role}.crt', key: '%s/{role}.key', ca: %s/ca.crt}\n";

/* Creates an authority, and a certificate for each end. */
static weir_status make_certificates(const struct scratch_server *s, weir_error *err)
{
	static const struct certificate_order orders[] = {
	    {.who = {"scratch", ROLE_SERVER, "server"}, .valid_s = CERTIFICATES_VALID_S},
	    {.who = {"scratch", ROLE_WORKER, "worker"}, .valid_s = CERTIFICATES_VALID_S}};
	weir_status status = certificate_authority(s->dir, CERTIFICATES_VALID_S, err);
	for (unsigned i = 0; i < sizeof orders / sizeof *orders && status == WEIR_OK; i++)
		status = certificate_issue(s->dir, &orders[i], err);
	return status;
}

static weir_status write_job(const struct scratch_server *s, const struct scratch_options *o, char path[96], weir_error *err)
{
	snprintf(path, 96, "%s/job.yaml", s->dir);
	FILE *out = fopen(path, "w");
	if (!out)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
	fprintf(out, job_text, s->dir, o->partitions, o->log_on_disk ? "disk" : "memory", o->no_lanes ? "grpc" : "auto");
	if (o->tls)
		fprintf(out, security_text, s->dir, s->dir, s->dir);
	return fclose(out) == 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
}

static weir_status choose_address(struct scratch_server *s, const struct scratch_options *o, weir_error *err)
{
	if (!o->unix_socket)
		return ports_pick("127.0.0.1", 1, s->address, err);
	snprintf(s->address[0], sizeof s->address[0], "unix:%s/server-0.sock", s->dir);
	return WEIR_OK;
}

static weir_status start_process(struct scratch_server *s, const struct scratch_options *o, weir_error *err)
{
	char path[96], program_dir[WEIR_PATH_BYTES_MAX];
	weir_status status = write_job(s, o, path, err);
	if (status == WEIR_OK && o->tls)
		status = make_certificates(s, err);
	if (status == WEIR_OK)
		status = choose_address(s, o, err);
	if (status == WEIR_OK)
		status = supervisor_own_dir(program_dir, sizeof program_dir, err);
	if (status == WEIR_OK)
		status = supervisor_create(&s->supervisor, program_dir, s->dir, clock_system(), err);
	if (status != WEIR_OK)
		return status;
	s->child = supervisor_add(s->supervisor, CHILD_SERVER, "server-0", "weir-server", err);
	if (!s->child)
		return err->status;
	const char *arguments[] = {"--job",       path,        "--index",     "0",           "--listen",
	                           s->address[0], "--servers", s->address[0], "--log-level", "warn"};
	for (unsigned i = 0; i < sizeof arguments / sizeof *arguments; i++)
		child_argument(s->child, arguments[i]);
	status = child_start(s->supervisor, s->child, true, err);
	return status == WEIR_OK ? supervisor_wait_ready(s->supervisor, s->child, WEIR_READY_TIMEOUT_MS, err) : status;
}

weir_status scratch_server_start(struct scratch_server *s, const struct scratch_options *options, weir_error *err)
{
	char certificate[96], key[96], ca[96];
	*s = (struct scratch_server){0};
	weir_status status = temp_folder_make("weir-scratch", s->dir, sizeof s->dir, err);
	if (status == WEIR_OK)
		status = start_process(s, options, err);
	if (status != WEIR_OK)
		return status;
	weir_options o = {.ledger = s->address[0], .name = "scratch", .dataset_fingerprint = 1, .dataset_units = SCRATCH_UNITS};
	snprintf(certificate, sizeof certificate, "%s/worker.crt", s->dir);
	snprintf(key, sizeof key, "%s/worker.key", s->dir);
	snprintf(ca, sizeof ca, "%s/ca.crt", s->dir);
	if (options->tls)
		o.security = (weir_security){.certificate = certificate, .key = key, .ca = ca};
	return weir_open(&s->client, &o, err);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

void scratch_folder_remove(const char *path)
{
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void scratch_server_stop(struct scratch_server *s)
{
	if (s->client)
		weir_abandon(s->client); /* its unit stays open; the server ends next */
	if (s->supervisor) {
		supervisor_signal(s->supervisor, CHILD_SERVER, SIGTERM);
		supervisor_stop(s->supervisor, CHILD_SERVER, SCRATCH_END_MS);
		supervisor_destroy(s->supervisor);
	}
	if (s->dir[0])
		scratch_folder_remove(s->dir);
	*s = (struct scratch_server){0};
}

weir_status scratch_server_batch(struct scratch_server *s, weir_batch *out, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (s->leased && s->next_batch == WEIR_UNIT_BATCHES_MAX) {
		status = weir_unit_commit(s->client, &s->unit, err);
		s->leased = false;
	}
	if (status == WEIR_OK && !s->leased) {
		status = weir_unit_lease(s->client, &s->unit, WEIR_CONTROL_TIMEOUT_MS, err);
		if (status == WEIR_OK && s->unit.state != WEIR_UNIT_LEASED)
			status = weir_fail(err, WEIR_E_STATE, "the scratch server's work units are used up");
		if (status == WEIR_OK)
			status = weir_unit_begin(s->client, &s->unit, WEIR_UNIT_BATCHES_MAX, err);
		s->leased = status == WEIR_OK;
		s->next_batch = s->unit.watermark;
	}
	*out = (weir_batch){.pass = s->unit.pass, .unit = s->unit.unit, .batch = s->next_batch, .attempt = s->unit.attempt};
	s->next_batch++;
	return status;
}

double scratch_server_cpu_s(const struct scratch_server *s)
{
	clockid_t clock;
	struct timespec t;
	if (clock_getcpuclockid(s->child->pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
		return 0;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
