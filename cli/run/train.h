/* The state of a run: `weir train`, `weir launch` or `weir up`. run_job.c leads through it:
 * run_begin.c chooses and begins the run, launch.c starts the processes, coordinator.c starts etcd
 * if the run needs its own, job_loop.c runs the job to its end, run_end.c reports, run_record.c
 * keeps how the run came about, and run_track.c shows it elsewhere. */
#ifndef WEIR_TRAIN_H
#define WEIR_TRAIN_H

#include "cli/core/accepted.h"
#include "cli/core/answers.h"
#include "cli/core/chaos.h"
#include "cli/core/curve.h"
#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/status_poller.h"
#include "cli/core/supervise.h"
#include "cli/observe/events.h"
#include "cli/observe/job_pages.h"
#include "cli/observe/report.h"
#include "cli/run/coordinator.h"
#include "cli/run/ranks.h"
#include "cli/run/replicas.h"
#include "cli/run/run_state.h"
#include "cli/run/silent.h"
#include "cli/track/tracker.h"
#include "common/job/job.h"
#include "common/job/job_resolved.h"
#include "common/system/energy.h"
#include "overview/overview.h"

struct train;

/* The differences between the verbs that start servers. */
struct run_kind {
	const char *verb;
	/* Checks data and weights, before anything is modified or started. NULL: no check. */
	weir_status (*prepare)(struct train *t, struct report *r, weir_error *err);
	/* NULL: the run has servers only, and ends when it is asked to. */
	weir_status (*start_workers)(struct train *t, weir_error *err);
};

struct train {
	const struct run_kind *kind;
	char **command;     /* launch: the trainers', NULL-terminated */
	struct ranks ranks; /* launch: those that start here */
	const char *range;  /* --ranks, or NULL: all */
	const char *join;   /* --join, or NULL */
	/* up: the run ends when the other end of this pipe is closed; -1: none. */
	int watch_fd;
	bool watch_closed;
	struct job_options options;
	const char *report_path;        /* --report, or NULL */
	const char *http;               /* --http, or NULL */
	struct option_list http_names;  /* --http-name */
	bool resume, fresh;             /* --resume, --fresh */
	bool dry_run;                   /* --dry-run */
	bool checkpoint_at_end;         /* --checkpoint-at-end */
	struct accepted accepted;       /* --accept */
	struct answers plan;            /* to keys that say `auto`; options.sets points into it */
	struct fingerprint fingerprint; /* of the job and its data */
	uint32_t units;                 /* number of work units of the training data */
	/* in this run and earlier ones, {"accepted": [...]}; NULL: none */
	struct json *all_accepted;
	struct run_state run; /* the run that the servers are started as */
	struct job *job;
	char *job_text;               /* text of the job file */
	struct job_resolved resolved; /* its settings */
	/* the path of a kept copy of a job file that came through a pipe */
	char job_path[WEIR_PATH_BYTES_MAX + 64];
	struct logger *logger;
	const struct clock *clock;
	struct supervisor *supervisor;
	struct status_poller *poller;
	struct progress_line progress;
	struct events events;
	struct job_pages *pages; /* NULL: none */
	struct tracker *tracker; /* NULL: none */
	struct energy *energy;   /* NULL: the machine does not tell */
	struct run_energy energy_used;
	struct coordinator coordinator;
	int run_dir_fd;                            /* holds the lock on the run directory; -1 */
	int signal_fd;                             /* SIGCHLD and the signals of stop_signals.h */
	char (*addresses)[WEIR_ADDRESS_BYTES_MAX]; /* (cluster.servers) */
	int64_t start_ms, workers_ms;              /* when weir and when its workers started */

	/* The last poll of the job, the job as this run found it, and the times when the row count was
	 * first and last seen to grow. */
	struct overview seen;
	int64_t seen_ms; /* when that poll was sent */
	bool seen_any, was_finished;
	uint64_t rows_before, first_rows;
	int64_t first_rows_ms, last_rows_ms;

	struct curve curve;
	/* rewinds to a checkpoint, and the batches that they discarded */
	uint64_t rewinds, batches_undone;
	struct replicas replicas;
	struct silent silent;
	struct chaos chaos;
	uint64_t workers_killed, servers_lost; /* deaths of workers and of servers */
	bool server_gone;                      /* a server is gone for good */
	bool lost;                             /* some of the servers' data are lost for good */
	struct {
		int64_t since_ms; /* the last end of a trainer here */
		bool told;        /* that the servers stay for trainers of other launches */
		/* The last trainer's failure, reported unless another launch finishes the job. Status
		 * OK: it did not fail. */
		weir_error failure;
	} others;
	int stop_signal;   /* the first signal to end; 0: none */
	bool stop_at_once; /* a second signal came */
	/* while ending: kill the remaining children at this time; 0: not ending */
	int64_t give_up_ms;
	/* when a poll first showed the ledger finished; 0: not yet */
	int64_t finished_ms;
	weir_error failure; /* status OK: none */
};

/* The options of the verbs that run a job to its end: rows of an array of struct option. */
#define RUN_OPTIONS(t)                                                                               \
	{"--report", OPTION_TEXT, &(t).report_path, "OUT.json", "write the report there, as JSON"},      \
	    {"--http", OPTION_TEXT, &(t).http, "[HOST:]PORT",                                            \
	     "show the run on a page, and to Prometheus at /metrics; on loopback unless HOST is given"}, \
	    HTTP_NAME_OPTION((t).http_names),                                                            \
	    {"--resume", OPTION_FLAG, &(t).resume, NULL, "go on with the earlier run of this job"},      \
	{                                                                                                \
		"--fresh", OPTION_FLAG, &(t).fresh, NULL,                                                    \
		    "begin anew: the servers' data of the earlier run are deleted, its results kept"         \
	}

#endif
