/* A coordinator and its sessions, for tests that run on each kind: in memory on simulated time, or
 * a real etcd. Every wait ends with its condition, or fails the test after WORLD_PATIENCE_MS. */
#ifndef COORD_FIXTURE_H
#define COORD_FIXTURE_H

#include <pthread.h>

#include "proto/coord/coord.h"
#include "proto/coord/coord_memory.h"
#include "proto/rpc/rpc.h"
#include "tests/unit/proto/etcd_process.h"

#define WORLD_PATIENCE_MS  60000
#define WORLD_SESSIONS_MAX 4
#define TOLD_MAX           512

struct told {                                      /* a copy of a record */
	char key[WEIR_COORD_KEY_BYTES_MAX], value[64]; /* value: cut; "(deleted)" for a deletion */
	size_t value_bytes;
	uint64_t mod_revision, lease;
};

struct session {
	struct world *world;
	struct coord *coord;
	/* The world's lock guards these fields. */
	enum coord_state state;
	uint32_t states; /* changes of `state` */
	char text[WEIR_ERROR_TEXT_BYTES];
	uint32_t losses;
	int64_t held_until_ns;
	bool stalled, still;
	/* The session's thread: a loop, or the waiting thread. */
	struct rpc_loop *loop;
	struct task_queue *tasks;
};

struct world {
	bool etcd;           /* false: in memory */
	char endpoints[600]; /* endpoints of etcd for new sessions; "": the current address */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct session sessions[WORLD_SESSIONS_MAX];
	uint32_t sessions_count;
	struct etcd_process process;
	struct rpc *rpc;
	struct coord_memory *memory;
	struct clock clock;
	int64_t now_ns;
};

void world_open(struct world *w, bool etcd); /* the coordinator runs */
void world_close(struct world *w);           /* closes the sessions too */
void world_down(struct world *w);            /* kills etcd with SIGKILL */
void world_up(struct world *w);
void world_silent(struct world *w, bool silent); /* stops or continues etcd */
void world_compact(struct world *w, uint64_t revision);
int64_t world_now_ns(const struct world *w);
/* Waits until condition(arg), which runs with the lock held. `what` names it in the failure. */
void world_wait(struct world *w, bool (*condition)(void *arg), void *arg, const char *what);

struct session *session_open(struct world *w, uint32_t lease_ms);
void session_wait_state(struct session *s, enum coord_state state);
void session_close(struct session *s);
/* pauses the session's process: its thread runs nothing */
void session_stall(struct session *s, bool stalled);
/* loses its connection and does not reconnect */
void session_part(struct session *s);
void session_rejoin(struct session *s);
/* runs fn on the session's thread and waits */
void on_session(struct session *s, void (*fn)(void *arg), void *arg);

struct answer {
	struct session *session;
	uint32_t done; /* number of answers */
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
	bool applied;
	uint64_t revision;
	struct told records[TOLD_MAX];
	uint32_t count;
	weir_error refused; /* set by the call itself; then `done` is set too */
};
/* The *_start functions return at once; the others wait for the answer. */
void read_start(struct session *s, const char *name, uint32_t timeout_ms, struct answer *a);
void read_now(struct session *s, const char *name, struct answer *a);
void txn_start(struct session *s, const struct coord_txn *txn, uint32_t timeout_ms, struct answer *a);
void txn_now(struct session *s, const struct coord_txn *txn, struct answer *a);
void answer_wait(struct answer *a);
/* One change: guarded unless revision is ANY; a NULL value deletes. Returns its revision, or 0 if
 * it was not applied. */
#define ANY UINT64_MAX
uint64_t put_text(struct session *s, const char *key, const char *value, uint64_t revision, bool leased, struct answer *a);

struct watched {
	struct session *session;
	struct coord_watch *watch;
	struct told events[TOLD_MAX];
	uint32_t count, calls, missed;
	bool stop_at_once; /* from inside the watch's first callback */
};
void watch_begin(struct session *s, const char *name, uint64_t revision, struct watched *w);
void watch_end(struct watched *w);
void watched_wait(struct watched *w, uint32_t events);
void watched_wait_missed(struct watched *w);

#endif
