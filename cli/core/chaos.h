/* `weir train --chaos SEED`: servers and workers of the run are killed (-9) and stopped for a while (SIGSTOP, SIGCONT), to see that training goes on. What is
 * done to whom and how long after the last time is drawn from the seed alone: the same seed gives the same list. When its turn has come, an act against
 * a server waits until the job has got over the one before: every partition reported and all its replicas in sync, every server there. So does one against a
 * worker wait until that one runs. */
#ifndef WEIR_CHAOS_H
#define WEIR_CHAOS_H

#include "cli/core/progress_line.h"
#include "cli/core/supervise.h"
#include "common/base/prng.h"
#include "common/job/job.h"
#include "overview/overview.h"

#define CHAOS_OFF UINT64_MAX /* as a seed */

enum chaos_act { CHAOS_KILL, CHAOS_PAUSE, CHAOS_ACTS };
enum chaos_whom { CHAOS_SERVER, CHAOS_WORKER, CHAOS_WHOM };

struct chaos_event {
	uint32_t wait_ms; /* after the one before */
	enum chaos_act act;
	enum chaos_whom whom;
	uint32_t index;    /* server or worker */
	uint32_t pause_ms; /* CHAOS_PAUSE */
};

struct chaos {
	bool on;
	uint64_t seed;
	struct prng prng;
	struct chaos_event next;
	int64_t next_ms;       /* when it may happen */
	int64_t server_hit_ms; /* when a server last was */
	const struct job *job;
	struct supervisor *supervisor;
	struct live *live;
	struct { /* who stands still; one of each at a time */
		struct child *child;
		pid_t pid;
		int64_t until_ms;
	} paused[CHAOS_WHOM];
	uint64_t count[CHAOS_WHOM][CHAOS_ACTS];
};

/* seed is set. Says who is spared, and why. */
void chaos_begin(struct chaos *c, const struct job *job, struct supervisor *s, struct live *l, int64_t now_ms);
/* What is due. seen: the job as it was at seen_ms or later; NULL: not seen yet. Returns the server that was killed or stopped; WEIR_SERVER_NONE: none. */
uint32_t chaos_tick(struct chaos *c, const struct overview *seen, int64_t seen_ms, int64_t now_ms);
bool chaos_is_pausing(const struct chaos *c); /* a server: who asks it gets no answer */
/* Everybody goes on. Nothing more is done to anybody. */
void chaos_end(struct chaos *c);

/* The next event of a list. */
struct chaos_event chaos_draw(struct prng *r, const struct job *job);

#endif
