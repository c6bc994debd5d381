/* `weir train --chaos SEED` kills (-9) servers and workers of the run and pauses them (SIGSTOP,
 * SIGCONT), to test that training continues.
 *
 * The seed alone determines the list of events: the act, its target, and the delay since the
 * previous event. The same seed gives the same list. A due act against a server waits until the job
 * has recovered from the previous act: every partition has reported, all its replicas are in sync,
 * and every server answers and has run for WEIR_CHILD_STEADY_MS. A due act against a worker waits
 * until that worker runs. */
#ifndef WEIR_CHAOS_H
#define WEIR_CHAOS_H

#include "cli/core/progress_line.h"
#include "cli/core/supervise.h"
#include "common/base/prng.h"
#include "common/job/job.h"
#include "overview/overview.h"

#define CHAOS_OFF UINT64_MAX /* a seed value: no chaos */

enum chaos_act { CHAOS_KILL, CHAOS_PAUSE, CHAOS_ACTS };
enum chaos_whom { CHAOS_SERVER, CHAOS_WORKER, CHAOS_WHOM };

struct chaos_event {
	uint32_t wait_ms; /* after the previous event */
	enum chaos_act act;
	enum chaos_whom whom;
	uint32_t index;    /* of the server or worker */
	uint32_t pause_ms; /* CHAOS_PAUSE */
};

struct chaos {
	bool on;
	uint64_t seed;
	struct prng prng;
	struct chaos_event next;
	int64_t next_ms;       /* earliest time of the next event */
	int64_t server_hit_ms; /* when chaos last hit a server */
	const struct job *job;
	struct supervisor *supervisor;
	struct progress_line *progress;
	struct { /* the paused child; at most one server and one worker at a time */
		struct child *child;
		pid_t pid;
		int64_t until_ms;
	} paused[CHAOS_WHOM];
	uint64_t count[CHAOS_WHOM][CHAOS_ACTS];
};

/* Starts chaos. seed is set. Prints the exempt processes, with the reason. */
void chaos_begin(struct chaos *c, const struct job *job, struct supervisor *s, struct progress_line *l, int64_t now_ms);
/* Performs due acts. seen: the state of the job at seen_ms or later; NULL: unknown yet. Returns the
 * server that was killed or paused, or WEIR_SERVER_NONE. */
uint32_t chaos_tick(struct chaos *c, const struct overview *seen, int64_t seen_ms, int64_t now_ms);
bool chaos_is_pausing(const struct chaos *c); /* a server is paused and does not answer */
/* Resumes all paused children and stops all further acts. */
void chaos_stop(struct chaos *c);

/* Draws the next event of the list. */
struct chaos_event chaos_draw(struct prng *r, const struct job *job);

#endif
