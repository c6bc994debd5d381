/* A weir-server process and one client, for benchmarks. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/bench/bench_net.h"
#include "cli/core/ports.h"
#include "common/tls/certificate.h"

enum { BENCH_UNITS = 1 << 20, BENCH_SERVER_END_MS = 3000, CERTIFICATES_VALID_S = 86400 };

static const char job_text[] = "job: bench\n"
                               "run_dir: %s\n"
                               "cluster: {servers: 1, workers: 1, partitions: 16, lease_ms: 60000}\n"
                               "data: {format: criteo, train: none, shuffle: false}\n"
                               "model: {kind: lr}\n";

static const char security_text[] = "security: {certificate: '%s/{role}.crt', key: '%s/{role}.key', ca: %s/ca.crt}\n";

/* Creates an authority, and a certificate for each end. */
static weir_status make_certificates(const struct bench_server *s, weir_error *err)
{
	static const struct certificate_order orders[] = {{.who = {"bench", ROLE_SERVER, "server"}, .valid_s = CERTIFICATES_VALID_S},
	                                                  {.who = {"bench", ROLE_WORKER, "worker"}, .valid_s = CERTIFICATES_VALID_S}};
	weir_status status = certificate_authority(s->dir, CERTIFICATES_VALID_S, err);
	for (unsigned i = 0; i < sizeof orders / sizeof *orders && status == WEIR_OK; i++)
		status = certificate_issue(s->dir, &orders[i], err);
	return status;
}

static weir_status write_job(const struct bench_server *s, bool tls, char path[96], weir_error *err)
{
	snprintf(path, 96, "%s/job.yaml", s->dir);
	FILE *out = fopen(path, "w");
	if (!out)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
	fprintf(out, job_text, s->dir);
	if (tls)
		fprintf(out, security_text, s->dir, s->dir, s->dir);
	return fclose(out) == 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
}

static weir_status start_process(struct bench_server *s, bool tls, weir_error *err)
{
	char path[96], program_dir[WEIR_PATH_BYTES_MAX];
	weir_status status = write_job(s, tls, path, err);
	if (status == WEIR_OK && tls)
		status = make_certificates(s, err);
	if (status == WEIR_OK)
		status = ports_pick("127.0.0.1", 1, s->address, err);
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

weir_status bench_server_start(struct bench_server *s, bool tls, weir_error *err)
{
	char certificate[96], key[96], ca[96];
	*s = (struct bench_server){0};
	strcpy(s->dir, "/tmp/weir-bench-XXXXXX");
	if (!mkdtemp(s->dir)) {
		s->dir[0] = '\0';
		return weir_fail(err, WEIR_E_IO, "cannot make a folder in /tmp: %s", strerror(errno));
	}
	weir_status status = start_process(s, tls, err);
	if (status != WEIR_OK)
		return status;
	weir_options o = {.ledger = s->address[0], .name = "bench", .dataset_fingerprint = 1, .dataset_units = BENCH_UNITS};
	snprintf(certificate, sizeof certificate, "%s/worker.crt", s->dir);
	snprintf(key, sizeof key, "%s/worker.key", s->dir);
	snprintf(ca, sizeof ca, "%s/ca.crt", s->dir);
	if (tls)
		o.security = (weir_security){.certificate = certificate, .key = key, .ca = ca};
	return weir_open(&s->client, &o, err);
}

void bench_server_stop(struct bench_server *s)
{
	static const char *const files[] = {"job.yaml",   "server-0.log", "ca.crt",     "ca.key",
	                                    "server.crt", "server.key",   "worker.crt", "worker.key"};
	char path[128];
	if (s->client)
		weir_abandon(s->client); /* its unit stays open; the server ends next */
	if (s->supervisor) {
		supervisor_signal(s->supervisor, CHILD_SERVER, SIGTERM);
		supervisor_stop(s->supervisor, CHILD_SERVER, BENCH_SERVER_END_MS);
		supervisor_destroy(s->supervisor);
	}
	for (unsigned i = 0; s->dir[0] && i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "%s/%s", s->dir, files[i]);
		unlink(path);
	}
	if (s->dir[0])
		rmdir(s->dir);
	*s = (struct bench_server){0};
}

weir_status bench_server_batch(struct bench_server *s, weir_batch *out, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (s->leased && s->next_batch == WEIR_UNIT_BATCHES_MAX) {
		status = weir_unit_commit(s->client, &s->unit, err);
		s->leased = false;
	}
	if (status == WEIR_OK && !s->leased) {
		status = weir_unit_lease(s->client, &s->unit, WEIR_CONTROL_TIMEOUT_MS, err);
		if (status == WEIR_OK && s->unit.state != WEIR_UNIT_LEASED)
			status = weir_fail(err, WEIR_E_STATE, "the benchmark's work units are used up");
		if (status == WEIR_OK)
			status = weir_unit_begin(s->client, &s->unit, WEIR_UNIT_BATCHES_MAX, err);
		s->leased = status == WEIR_OK;
		s->next_batch = s->unit.watermark;
	}
	*out = (weir_batch){.pass = s->unit.pass, .unit = s->unit.unit, .batch = s->next_batch, .attempt = s->unit.attempt};
	s->next_batch++;
	return status;
}

double bench_server_cpu_s(const struct bench_server *s)
{
	char path[64], text[1024] = "";
	unsigned long user = 0, system = 0;
	struct rusage own;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)s->child->pid);
	FILE *in = fopen(path, "r");
	if (in) {
		char *after = fgets(text, sizeof text, in) ? strrchr(text, ')') : NULL;
		if (after) /* fields 14 and 15; field 3 is the first after the name */
			sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
		fclose(in);
	}
	getrusage(RUSAGE_SELF, &own);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK) + (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
	       (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
}

/* --- Operations in flight */

void bench_flight_init(struct bench_flight *f, uint32_t window)
{
	*f = (struct bench_flight){.window = window};
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->change, NULL);
}

void bench_flight_destroy(struct bench_flight *f)
{
	pthread_cond_destroy(&f->change);
	pthread_mutex_destroy(&f->lock);
}

/* Waits until fewer than `room` operations are in flight. Under lock. */
static weir_status wait_below(struct bench_flight *f, uint32_t room, weir_error *err)
{
	while (f->in_flight >= room)
		pthread_cond_wait(&f->change, &f->lock);
	if (f->failure.status != WEIR_OK)
		*err = f->failure;
	return f->failure.status;
}

weir_status bench_flight_take(struct bench_flight *f, weir_error *err)
{
	pthread_mutex_lock(&f->lock);
	weir_status status = wait_below(f, f->window, err);
	if (status == WEIR_OK)
		f->in_flight++;
	pthread_mutex_unlock(&f->lock);
	return status;
}

weir_status bench_flight_drain(struct bench_flight *f, weir_error *err)
{
	pthread_mutex_lock(&f->lock);
	weir_status status = wait_below(f, 1, err);
	pthread_mutex_unlock(&f->lock);
	return status;
}

void bench_flight_give(struct bench_flight *f)
{
	pthread_mutex_lock(&f->lock);
	f->in_flight--;
	pthread_cond_signal(&f->change);
	pthread_mutex_unlock(&f->lock);
}

void bench_flight_done(void *arg, weir_ticket ticket, weir_status status, const char *text)
{
	(void)ticket;
	struct bench_flight *f = arg;
	pthread_mutex_lock(&f->lock);
	f->in_flight--;
	if (status != WEIR_OK && f->failure.status == WEIR_OK)
		weir_fail(&f->failure, status, "%s", text ? text : weir_status_text(status));
	pthread_cond_signal(&f->change);
	pthread_mutex_unlock(&f->lock);
}
