/* `weir train` in four files: train.c prepares and reports, launch.c starts the processes, coordinator.c the etcd of those that need one, drive.c brings the job to
 * its end. */
#ifndef WEIR_TRAIN_H
#define WEIR_TRAIN_H

#include "cli/core/accepted.h"
#include "cli/core/chaos.h"
#include "cli/core/curve.h"
#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/status_poller.h"
#include "cli/core/supervise.h"
#include "cli/observe/events.h"
#include "cli/observe/job_pages.h"
#include "cli/observe/report.h"
#include "cli/run/replicas.h"
#include "cli/run/run_state.h"
#include "cli/run/silent.h"
#include "common/job/job.h"
#include "overview/overview.h"

enum { COORDINATOR_PORTS = 2 };

struct coordinator {
	char url[WEIR_PATH_BYTES_MAX];     /* what servers are told; "": they need none */
	char program[WEIR_PATH_BYTES_MAX]; /* "": the etcd is not ours, */
	char addresses[COORDINATOR_PORTS]
	              [WEIR_ADDRESS_BYTES_MAX]; /* else where it listens: for servers, and for members that it has none of */
	struct child *child;                    /* NULL: not started */
};

struct train {
	struct job_options options;
	const char *report_path;        /* --report, or NULL */
	const char *http;               /* --http, or NULL */
	struct option_list http_names;  /* --http-name */
	bool resume, fresh;             /* --resume, --fresh */
	bool dry_run;                   /* --dry-run */
	struct accepted accepted;       /* --accept */
	struct fingerprint fingerprint; /* of the job and its data */
	uint32_t units;                 /* that the training data are cut into */
	struct json *all_accepted;      /* in this run and before it, {"accepted": [...]}; NULL: nothing */
	struct run_state run;           /* what the servers are started as */
	struct job *job;
	char *job_text;                          /* of the job file */
	char job_path[WEIR_PATH_BYTES_MAX + 64]; /* where one that came by a pipe is kept */
	struct logger *logger;
	const struct clock *clock;
	struct supervisor *supervisor;
	struct watcher *watcher;
	struct live live;
	struct events events;
	struct job_pages *pages; /* NULL: none */
	struct coordinator coordinator;
	int run_dir_fd;                            /* holds the lock on the run directory; -1 */
	int signal_fd;                             /* SIGCHLD, and those of stop_signals.h */
	char (*addresses)[WEIR_ADDRESS_BYTES_MAX]; /* (cluster.servers) */
	int64_t start_ms, workers_ms;              /* when weir and when its workers started */

	/* The job as last seen, as this run found it, and when rows were first and last seen to grow. */
	struct overview seen;
	int64_t seen_ms; /* when that was asked for */
	bool seen_any, was_finished;
	uint64_t rows_before, first_rows;
	int64_t first_rows_ms, last_rows_ms;

	struct curve curve;
	uint64_t rewinds, batches_undone; /* times that the job went back to a checkpoint, and how many batches of it that cost */
	struct replicas replicas;
	struct silent silent;
	struct chaos chaos;
	uint64_t workers_killed, servers_lost; /* times that one died */
	bool server_gone;                      /* one that does not come back */
	bool lost;                             /* for good is some of what the servers had */
	int stop_signal;                       /* the first that asked it to end; 0: none */
	bool stop_at_once;                     /* a second one came */
	int64_t give_up_ms;                    /* ending: children still there then are killed; 0: not ending */
	int64_t finished_ms;                   /* when the ledger was first seen to be done; 0: not yet */
	weir_error failure;                    /* status OK: none */
};

/* --- launch.c */
/* Fills t->addresses and checks that servers could listen there now. */
weir_status launch_choose_addresses(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Whether pages can be served: those of this command at `http` (NULL: none), and those of metrics.port. Nobody serves them yet. */
weir_status launch_check_pages(const struct job *job, const char *http, weir_error *err) WEIR_MUST_CHECK;
/* E_BUSY: a server of the job runs that this `weir train` has not started: it has its folder, or
 * listens at its address. Names it. */
weir_status launch_check_idle(const struct job *job, const char *who, weir_error *err) WEIR_MUST_CHECK;
/* Starts the servers at t->addresses and waits until they serve. The ledger's stays in RUN_DIR/ledger.address. */
weir_status launch_servers(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Imports the weights that the run is to start from into the servers, unless that is done. */
weir_status launch_warm_start(struct train *t, weir_error *err) WEIR_MUST_CHECK;
weir_status launch_workers(struct train *t, weir_error *err) WEIR_MUST_CHECK;
uint32_t launch_server_index(const struct child *server); /* its number */
/* Ends the servers, workers first, and removes what was only for the run. */
void launch_end(struct train *t, uint32_t timeout_ms);
/* Where the ledger of a job may be, "A,B,C": where `at` says (--at; may be NULL), else as cluster.servers_at or RUN_DIR/ledger.address has it, else as
 * cluster.listen says. E_NOT_FOUND when it cannot be known, or the job ran here and does not any more. */
weir_status launch_find_ledger(const struct job *job, const char *at, char out[JOB_PLACES_BYTES],
                               weir_error *err) WEIR_MUST_CHECK;

/* --- coordinator.c */
/* Whether an etcd is started with the run. */
bool coordinator_is_ours(const struct job *job);
/* Whether there is the etcd that the run is to start: to be said before data are made. E_NOT_FOUND: no; the text names its package. */
weir_status coordinator_find(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Fills the rest of t->coordinator. */
weir_status coordinator_choose(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Before the servers: starts ours, and waits until it, or the job's, answers. */
weir_status coordinator_start(struct train *t, weir_error *err) WEIR_MUST_CHECK;
void coordinator_end(struct train *t); /* behind the servers */
/* That a run which goes on finds what its own etcd had. */
weir_status coordinator_check_kept(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
weir_status coordinator_remove(const struct job *job, weir_error *err); /* what it left; none is fine */

/* --- drive.c */
/* Watches, restarts, shows, until all workers have ended. What went wrong is in t->failure. */
void drive(struct train *t);

#endif
