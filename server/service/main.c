/* weir-server. docs/PROGRAMS.md describes its options and behaviour.
 *
 * When the job goes back to a checkpoint (rewind.h), the process starts over in place: it executes
 * itself with its original arguments. Only the process and its log remain of the life before. From
 * then on it does what any starting server does. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/key_partition.h"
#include "common/job/job.h"
#include "common/system/disk.h"
#include "common/system/process.h"
#include "common/system/stop_signals.h"
#include "proto/coord/coord_etcd.h"
#include "proto/rpc/ingress.h"
#include "proto/rpc/rpc_address.h"
#include "server/checkpoint/rewind_follow.h"
#include "server/cluster/marks.h"
#include "server/coord/incarnation.h"
#include "server/log/data_folder.h"
#include "server/partition/partition.h"
#include "server/service/job_checkpoint.h"
#include "server/service/self_series.h"
#include "server/service/server.h"
#include "server/service/server_addresses.h"
#include "server/service/server_arguments.h"
#include "server/store/cold.h"

#define DRAIN_MARGIN_MS     500u /* part of WEIR_DRAIN_MS for the work after the drain */
#define COORDINATOR_POLL_MS 10u
#define COORDINATOR_LATE_MS 1000u /* then the wait is logged */
#define ASIDES_MAX          100u  /* folders of earlier runs kept for one server */

/* --- Running */

/* This server's share of the cores: all of them, or an equal part if servers and workers share a
 * machine. */
static uint32_t executors_of(const struct job *job)
{
	if (job->cluster.executors)
		return job->cluster.executors;
	const uint32_t local = job->cluster.servers_at_count ? 1 : job->cluster.servers + job->cluster.workers;
	const uint32_t share = process_cores() / local;
	return share ? share : 1;
}

/* Only the client knows that a push is sent. Servers answer it as for the next level. */
static enum partition_ack ack_of(const struct job *job)
{
	switch (job->cluster.ack) {
	case JOB_ACK_SENT:
	case JOB_ACK_PRIMARY:
		return PARTITION_ACK_PRIMARY;
	case JOB_ACK_REPLICAS:
		break;
	case JOB_ACK_DISK:
		return PARTITION_ACK_DISK;
	}
	return PARTITION_ACK_REPLICAS;
}

static void leave_at_once(int signal_number)
{
	(void)signal_number;
	_exit(1);
}

/* Waits for the first signal to end, or SIGUSR1. */
static int wait_for_signal(const sigset_t *set)
{
	int got;
	sigwait(set, &got);
	return got;
}

/* From now on the next signal ends the process at once. */
static void take_signals_lightly(const sigset_t *set)
{
	stop_signals_handle(leave_at_once);
	pthread_sigmask(SIG_UNBLOCK, set, NULL);
}

static void say_ready(int fd, const char *address)
{
	char line[WEIR_ADDRESS_BYTES_MAX + 16];
	int n = snprintf(line, sizeof line, "READY %s\n", address);
	if (fd >= 0 && (write(fd, line, (size_t)n) != n || close(fd) != 0))
		fprintf(stderr, "weir-server: ready descriptor %d: %s\n", fd, strerror(errno));
}

struct parts {
	struct job *job;
	struct logger *logger;
	struct rpc *rpc;
	struct server *server;
	struct self_series *self_series; /* NULL: it shows no pages */
	struct server_addresses addresses;
	const char *address_list[WEIR_SERVERS_MAX];
	uint32_t partition_server[WEIR_PARTITIONS_MAX];
	char place[WEIR_PATH_BYTES_MAX + 32]; /* of checkpoints */
	char folder[WEIR_PATH_BYTES_MAX + 32], mark[WEIR_PATH_BYTES_MAX + 32];
	struct rpc_loop *session; /* while it asks the coordinator, before it starts */
	/* That began this generation; its generation is 0: the job has not gone back. */
	struct rewind_record last;
	struct mark known;     /* the coordinator's mark of this server */
	uint64_t incarnation;  /* of this start, taken from the coordinator; 0: none */
	atomic_bool succeeded; /* another generation follows */
};

/* No promise can be kept any more: anything accepted from here on might be lost. */
static void on_storage_failed(void *arg, const weir_error *err)
{
	(void)arg;
	fprintf(stderr, "weir-server: stopping, storage has failed: %s\n", err->text);
	_exit(1);
}

/* The process is about to end because an assertion has failed. An assertion in RocksDB means that
 * the disk has failed (cold.h). Then the process ends as after other storage failures, so that it
 * is not restarted on that disk. Async-signal-safe. */
static char rocksdb_failed[WEIR_PATH_BYTES_MAX + 512];
static void on_abort(int signal)
{
	char thread[16] = "";
	if (prctl(PR_GET_NAME, thread) != 0 || strncmp(thread, COLD_THREADS, sizeof COLD_THREADS - 1) != 0) {
		(void)raise(signal); /* ends the process: SA_RESETHAND */
		return;
	}
	if (write(STDERR_FILENO, rocksdb_failed, strlen(rocksdb_failed)) < 0)
		_exit(2);
	_exit(1);
}

static void expect_abort(const char *folder)
{
	const struct sigaction on = {.sa_handler = on_abort, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
	snprintf(rocksdb_failed, sizeof rocksdb_failed,
	         "weir-server: stopping, storage has failed: %s/db: RocksDB has ended itself, as it does after a failed write: the "
	         "disk is full, "
	         "its user's quota is used up (df, quota), or it is broken (dmesg). The log has the rows, the next start reads it\n",
	         folder);
	(void)sigaction(SIGABRT, &on, NULL);
}

static void on_displaced(const weir_error *why)
{
	fprintf(stderr, "weir-server: %s\n", why->text);
	_exit(1);
}

/* The signals that end the process are blocked until it serves. A pending one waits for
 * wait_for_signal. */
static bool asked_to_end(void *arg)
{
	(void)arg;
	return stop_signals_pending();
}

/* --- Answers from the coordinator at a start */

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	const struct parts *p = arg;
	return coord_etcd_open(out, p->rpc, p->session, p->job->cluster.coord, options, err);
}

/* With replicas: on return the arguments name the job's present generation, and this start has its
 * mark and its incarnation. */
static weir_status follow(struct parts *p, struct server_arguments *a, weir_error *err)
{
	struct rewind_follow_options o = {.generation = a->generation,
	                                  .restore = a->restore,
	                                  .ask = {.open = open_session,
	                                          .asked_to_end = asked_to_end,
	                                          .arg = p,
	                                          .logger = p->logger,
	                                          .coordinator = p->job->cluster.coord}};
	if (p->job->cluster.replicas == 1)
		return WEIR_OK;
	memcpy(o.uuid, a->uuid, sizeof o.uuid);
	p->session = rpc_loop_create(p->rpc, "coord", err);
	if (!p->session)
		return WEIR_E_MEMORY;
	o.ask.session = rpc_loop_executor(p->session);
	weir_status status = rewind_follow(&o, &p->last, err);
	if (!status)
		status = marks_ask(&o.ask, a->uuid, (uint16_t)a->index, &p->known, err);
	if (!status)
		status = incarnation_take(&o.ask, a->uuid, (uint16_t)a->index,
		                          (uint64_t)(clock_system()->ops->wall_ns(clock_system()) / 1000000), &p->incarnation, err);
	rpc_loop_destroy(p->session);
	if (status || !p->last.generation)
		return status;
	a->generation = p->last.generation;
	a->restore = p->last.checkpoint;
	logger_write(p->logger, LOG_INFO, NULL, "job has gone back", "generation=%llu checkpoint=%s batches=%llu why=\"%s\"",
	             (unsigned long long)p->last.generation, p->last.checkpoint, (unsigned long long)p->last.step, p->last.why);
	return WEIR_OK;
}

/* Moves this server's folder to RUN_DIR/WHERE/server-I, or WHERE-2 and so on if an earlier run has
 * left one there. earlier: only if the folder is of an earlier generation. */
static weir_status put_aside(const struct parts *p, const struct server_arguments *a, const char *where, bool earlier,
                             const char *name, weir_error *err)
{
	struct folder_identity who = {.generation = a->generation, .index = a->index};
	char aside[sizeof p->folder + 64];
	bool done = !earlier;
	weir_status status = WEIR_E_EXISTS;
	memcpy(who.uuid, a->uuid, sizeof who.uuid);
	for (unsigned i = 1; status == WEIR_E_EXISTS && i <= ASIDES_MAX; i++) {
		char suffix[16] = "";
		if (i > 1)
			snprintf(suffix, sizeof suffix, "-%u", i);
		snprintf(aside, sizeof aside, "%s/%s%s/server-%u", p->job->run_dir, where, suffix, a->index);
		status = earlier ? folder_set_aside(disk_system(), p->folder, aside, name, &who, &done, err)
		                 : folder_put_aside(disk_system(), p->folder, aside, name, err);
	}
	if (done && !status)
		logger_write(p->logger, LOG_INFO, NULL, "put aside", "folder=%s to=%s", p->folder, aside);
	return status;
}

/* Puts aside the folder of the generation before. */
static weir_status leave_generation(const struct parts *p, const struct server_arguments *a, const char *name, weir_error *err)
{
	char where[32];
	snprintf(where, sizeof where, "before-g%llu", (unsigned long long)a->generation);
	return p->last.generation ? put_aside(p, a, where, true, name, err) : WEIR_OK;
}

static void on_succeeded(void *arg, const struct rewind_record *next)
{
	struct parts *p = arg;
	(void)next; /* the new start looks for it again */
	atomic_store(&p->succeeded, true);
	kill(getpid(), SIGUSR1);
}

/* Executes this program again. Drops --ready-fd if READY was written: the descriptor is another
 * file's by now, or will be. Never returns: if the execution fails, exits with status 1. */
static void begin_anew(const struct parts *p, const struct server_arguments *a, char **argv)
{
	int n = 1;
	for (int i = 1; argv[i]; i++) {
		const bool ready = a->ready_fd < 0 && strncmp(argv[i], "--ready-fd", strlen("--ready-fd")) == 0;
		if (!ready)
			argv[n++] = argv[i];
		else if (!strchr(argv[i], '=') && argv[i + 1])
			i++;
	}
	argv[n] = NULL;
	logger_write(p->logger, LOG_INFO, NULL, "begins anew", "pid=%ld", (long)getpid());
	(void)close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
	if (a->ready_fd > STDERR_FILENO)
		(void)fcntl(a->ready_fd, F_SETFD, 0);
	execv("/proc/self/exe", argv);
	fprintf(stderr, "weir-server: cannot begin anew: %s; start it again\n", strerror(errno));
	_exit(1);
}

static const int rate_rules[] = {
    [LR_SCALE_NONE] = LEDGER_RATE_AS_IT_IS, [LR_SCALE_LINEAR] = LEDGER_RATE_LINEAR, [LR_SCALE_SQRT] = LEDGER_RATE_SQRT};

static weir_status start(struct parts *p, const struct server_arguments *a, const char *name, const char *listen, weir_error *err)
{
	const struct job *job = p->job;
	struct ledger_options ledger = {.clock = clock_system(),
	                                .entropy = entropy_system(),
	                                .logger = p->logger,
	                                .generation = a->generation,
	                                .lease_ms = job->cluster.lease_ms,
	                                .progress_timeout_ms = job->cluster.progress_timeout_ms,
	                                .patience_ms = job_server_patience_ms(job),
	                                .ack_sent = job->cluster.ack == JOB_ACK_SENT,
	                                .read_staleness_ms = job->read.from == READ_ANY ? job->read.max_staleness_ms : 0,
	                                .read_staleness_entries = job->read.max_staleness_entries,
	                                .passes = job->train.passes,
	                                .partitions = job->cluster.partitions,
	                                .servers_count = job->cluster.servers,
	                                .allow_skip = job->train.allow_skip,
	                                .rate_rule = rate_rules[job->train.lr_scale],
	                                .workers = job->cluster.workers,
	                                .seed = job->data.seed,
	                                .shuffle = job->data.shuffle,
	                                .gate = job_waits_for_evaluation(job),
	                                .servers = p->address_list,
	                                .partition_server = p->partition_server};
	struct durable_options durable = {.disk = disk_system(),
	                                  .path = p->folder,
	                                  .owns_process = true,
	                                  .fsync_interval_ms = job->cluster.fsync_interval_ms,
	                                  .flush_interval_ms = job->cluster.flush_interval_ms,
	                                  .known = p->known,
	                                  .mark_disk = disk_system(),
	                                  .mark_path = p->mark,
	                                  .failed = on_storage_failed,
	                                  .asked_to_end = asked_to_end};
	struct promising_options promising = {.disk = disk_system(), .path = p->folder, .failed = on_storage_failed};
	/* zeros: every start counts as one after a power cut. */
	(void)process_machine_boot(durable.machine_boot);
	memcpy(promising.machine_boot, durable.machine_boot, sizeof promising.machine_boot);
	const bool replicated = job->cluster.replicas > 1;
	const struct coordinator_options coordinator = {.etcd = job->cluster.coord, .displaced = on_displaced};
	struct checkpoint_options checkpoint;
	job_checkpoint_options(job, p->place, &checkpoint);
	struct server_options options = {.rpc = p->rpc,
	                                 .clock = clock_system(),
	                                 .logger = p->logger,
	                                 .name = name,
	                                 .listen = listen,
	                                 .advertise = a->advertise,
	                                 .generation = a->generation,
	                                 .process_id = entropy_system()->ops->u64(entropy_system()),
	                                 .index = a->index,
	                                 .servers = job->cluster.servers,
	                                 .partitions = job->cluster.partitions,
	                                 .replicas = job->cluster.replicas,
	                                 .scrub_interval_ms = job->cluster.scrub_interval_s * 1000,
	                                 .memory_budget_bytes = job->cluster.memory_budget_bytes,
	                                 .catch_up_bytes_per_s = (uint64_t)job->cluster.catch_up_mb_s * 1000000,
	                                 .min_isr = job->cluster.min_isr,
	                                 .coordinator = replicated ? &coordinator : NULL,
	                                 .incarnation_least = p->incarnation,
	                                 .addresses = p->addresses.count ? p->address_list : NULL,
	                                 .executors = executors_of(job),
	                                 .not_finite = job->train.not_finite,
	                                 .ack = ack_of(job),
	                                 .durable = job->cluster.log == JOB_LOG_DISK ? &durable : NULL,
	                                 .promising = job->cluster.log == JOB_LOG_MEMORY && replicated ? &promising : NULL,
	                                 .checkpoint = &checkpoint,
	                                 .restore = a->restore,
	                                 .rewound = p->last.generation ? &p->last : NULL,
	                                 .succeeded = on_succeeded,
	                                 .succeeded_arg = p,
	                                 .ledger = &ledger};
	memcpy(options.uuid, a->uuid, sizeof options.uuid);
	memcpy(ledger.uuid, a->uuid, sizeof ledger.uuid);
	ingress_begin(&(struct ingress_options){.job = *job->security.certificate ? job->name : NULL, .logger = p->logger});
	const weir_status status = server_create(&p->server, &options, err);
	ingress_stop();
	return status;
}

/* If the folder has gone back in time, the other servers have a newer copy: this server begins with
 * an empty folder in its place. */
static weir_status start_whole(struct parts *p, const struct server_arguments *a, const char *name, const char *listen,
                               weir_error *err)
{
	weir_error why = {0};
	weir_status status = start(p, a, name, listen, &why);
	if (status == WEIR_E_STALE && p->job->cluster.replicas > 1) {
		logger_write(p->logger, LOG_ERROR, NULL, "folder not whole", "%s. It is put aside, and rebuilt from the other servers",
		             why.text);
		status = put_aside(p, a, "gone-back", false, name, &why);
		if (!status)
			status = start(p, a, name, listen, &why);
	}
	return status ? weir_fail(err, status, "%s", why.text) : WEIR_OK;
}

/* A server with an index beyond the initial ones is added while the job runs. Others find it
 * through the coordinator. */
static weir_status check_index(const struct server_arguments *a, const struct job *job, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (a->index < job->cluster.servers)
		return WEIR_OK;
	if (job->cluster.replicas == 1)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "--index %u: the job has %u servers, and to be added while it runs a server needs cluster.replicas above 1", a->index,
		    job->cluster.servers);
	if (a->index >= job->cluster.servers + WEIR_SERVERS_ADDED_MAX || a->index >= WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "--index %u: to a job of %u servers at most %u are added", a->index,
		                 job->cluster.servers, WEIR_SERVERS_ADDED_MAX);
	if (!a->listen && !server_address_by_job(job, a->index, address))
		return weir_fail(err, WEIR_E_INVALID, "--index %u: give --listen, an address at which the other servers reach it",
		                 a->index);
	return WEIR_OK;
}

/* --- Pages */

static bool pages_address(const struct server_arguments *a, const struct job *job, char out[WEIR_ADDRESS_BYTES_MAX])
{
	if (a->http)
		snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%s", a->http);
	return a->http || job_monitor_address(job, a->index, out);
}

/* The address at which others reach this server, and which its certificate names. */
static const char *own_address(const struct parts *p, const struct server_arguments *a)
{
	const char *told = a->advertise ? a->advertise : a->index < p->addresses.count ? p->address_list[a->index] : "";
	const size_t n = strlen(told);
	return n == 0 || (n > 2 && strcmp(told + n - 2, ":0") == 0) ? server_address(p->server) : told;
}

static bool is_stuck(void *server, char thread[LOOP_WATCH_NAME_BYTES], uint64_t *ms)
{
	return server_stuck(server, thread, ms);
}

static weir_status start_pages(struct parts *p, const struct server_arguments *a, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (!p->self_series)
		return WEIR_OK;
	(void)pages_address(a, p->job, address);
	const struct self_series_options options = {
	    .pages = address,
	    .names = {(const char *const *)p->job->metrics.names, p->job->metrics.names_count},
	    .server = own_address(p, a),
	    .index = a->index,
	    .stuck = is_stuck,
	    .arg = p->server};
	const weir_status status = self_series_start(p->self_series, &options, err);
	if (!status)
		logger_write(p->logger, LOG_INFO, NULL, "pages", "at=http://%s/metrics", self_series_address(p->self_series));
	return status;
}

/* --- Start, service, end */

static weir_status prepare(struct parts *p, struct server_arguments *a, const char *name, char listen[WEIR_ADDRESS_BYTES_MAX],
                           weir_error *err)
{
	weir_status status = job_load(a->job_path, a->sets, a->sets_count, &p->job, err);
	if (!status)
		status = job_check_planned(p->job, err);
	if (status)
		return status;
	const struct job *job = p->job;
	job_server_dir(job, a->index, p->folder);
	job_server_mark(job, a->index, p->mark);
	status = check_index(a, job, err);
	if (status)
		return status;
	if (job->cluster.replicas > 1 && strcmp(job->cluster.coord, "static") == 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "cluster.replicas is %u, and cluster.coord is static: servers that are started one by one agree through "
		                 "etcd; set cluster.coord to etcd://HOST:PORT or etcds://HOST:PORT",
		                 job->cluster.replicas);
	if (!a->has_uuid)
		hash128_bytes(job->name, strlen(job->name), a->uuid);
	if (a->listen)
		snprintf(listen, WEIR_ADDRESS_BYTES_MAX, "%s", a->listen);
	else if (!server_address_by_job(job, a->index, listen))
		snprintf(listen, WEIR_ADDRESS_BYTES_MAX, "%s", job->cluster.listen);
	if (a->index == 0 || job->cluster.replicas > 1 || a->servers || server_addresses_are_fixed(job))
		status = server_addresses_find(a->servers, job, &p->addresses, err);
	if (!status && strncmp(listen, "unix:", 5) == 0)
		status = disk_system()->ops->make_dirs(disk_system(), job->run_dir, err);
	if (!status) /* before any wait */
		status = rpc_address_check(listen, err);
	for (uint32_t i = 0; i < p->addresses.count; i++)
		p->address_list[i] = p->addresses.text[i];
	for (uint32_t i = 0; i < job->cluster.partitions; i++)
		p->partition_server[i] = placement_server(i, job->cluster.servers);
	p->logger = logger_create(&(struct logger_options){.level = a->level, .format = a->format, .who = name});
	p->rpc = status ? NULL : rpc_grpc_create(p->logger);
	if (!status && (!p->logger || !p->rpc))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory");
	struct job_security security;
	job_security(job, ROLE_SERVER, &security);
	if (!status)
		status = rpc_grpc_secure(p->rpc, &security.is, err);
	if (!status && job->cluster.lane == JOB_LANE_AUTO)
		rpc_grpc_serve_lanes(p->rpc, &(struct rpc_lanes){.port = job->cluster.lane_port, .trust = ingress_trust});
	const struct rpc_network network = {job->cluster.network.rate_bits_per_s, job->cluster.network.latency_ms};
	if (!status && rpc_shape(p->rpc, &network))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory");
	char pages[WEIR_ADDRESS_BYTES_MAX];
	if (!status && pages_address(a, job, pages) && !(p->self_series = self_series_create(p->rpc)))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory");
	return status;
}

/* Waits until this server can get partitions; only then is it reported as ready. A signal ends the
 * wait, and stays pending. */
static void wait_for_coordinator(const struct parts *p)
{
	const struct timespec pause = {.tv_nsec = COORDINATOR_POLL_MS * 1000000l};
	for (uint32_t waited_ms = 0; !server_is_coordinated(p->server) && !asked_to_end(NULL) && !atomic_load(&p->succeeded);
	     waited_ms += COORDINATOR_POLL_MS) {
		if (waited_ms == COORDINATOR_LATE_MS)
			logger_write(p->logger, LOG_WARN, NULL, "waiting",
			             "cluster.coord %s does not answer yet: start it, or correct the address", p->job->cluster.coord);
		nanosleep(&pause, NULL);
	}
}

static uint32_t partitions_of(const struct parts *p, uint32_t index)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < p->job->cluster.partitions; i++)
		count += p->partition_server[i] == index;
	return count;
}

static void clean_up(struct parts *p)
{
	self_series_stop(p->self_series);
	server_destroy(p->server);
	if (p->rpc)
		rpc_destroy(p->rpc);
	self_series_destroy(p->self_series);
	if (p->logger)
		logger_destroy(p->logger);
	job_destroy(p->job);
	free(p);
}

/* Serves until the process is told to end. If the job goes back, the process starts over in
 * here. */
static void serve(struct parts *p, struct server_arguments *a, const sigset_t *set, char **argv)
{
	logger_write(p->logger, LOG_INFO, NULL, "serving", "address=%s partitions=%u executors=%u", server_address(p->server),
	             partitions_of(p, a->index), executors_of(p->job));
	wait_for_coordinator(p);
	if (!atomic_load(&p->succeeded)) {
		say_ready(a->ready_fd, server_address(p->server));
		a->ready_fd = -1;
	}
	for (bool ended = false; !ended;) {
		ended = wait_for_signal(set) != SIGUSR1;
		if (!ended && atomic_load(&p->succeeded))
			begin_anew(p, a, argv);
	}
	take_signals_lightly(set);
}

int main(int argc, char **argv)
{
	struct server_arguments a;
	const int helped = server_arguments_help(argc, argv);
	if (helped >= 0)
		return helped;
	if (!server_arguments_parse(&a, argc, argv))
		return 2;
	sigset_t set;
	sigemptyset(&set);
	stop_signals_add(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread: threads inherit it */
	signal(SIGPIPE, SIG_IGN);
	/* gRPC 1.51 never accepts again after it once had no descriptor left for a connection. */
	process_raise_descriptors();

	struct parts *p = calloc(1, sizeof *p);
	char name[32], listen[WEIR_ADDRESS_BYTES_MAX];
	weir_error err = {0};
	snprintf(name, sizeof name, "server-%u", a.index);
	weir_status status = p ? prepare(p, &a, name, listen, &err) : weir_fail(&err, WEIR_E_MEMORY, "out of memory");
	if (!status && (status = follow(p, &a, &err)) == WEIR_E_CANCELLED) {
		clean_up(p);
		return 0;
	}
	if (!status)
		status = leave_generation(p, &a, name, &err);
	if (!status)
		expect_abort(p->folder);
	if (!status)
		status = start_whole(p, &a, name, listen, &err);
	if (!status)
		status = start_pages(p, &a, &err);
	if (status) {
		fprintf(stderr, "weir-server: %s\n", err.text);
		if (p)
			clean_up(p);
		return 1;
	}
	serve(p, &a, &set, argv);
	logger_write(p->logger, LOG_INFO, NULL, "draining", "timeout_ms=%u", WEIR_DRAIN_MS);
	server_hand_over(p->server, WEIR_HAND_OVER_MS);
	server_drain(p->server, WEIR_DRAIN_MS - WEIR_HAND_OVER_MS - DRAIN_MARGIN_MS);
	clean_up(p);
	return 0;
}
