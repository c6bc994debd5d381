/* A partition under load on one node, and a snapshot of it to another node, frame by frame, over
 * simulated time. Both must equal a partition in memory with the same entries. */
#ifndef TEST_SNAPSHOT_FIXTURE_H
#define TEST_SNAPSHOT_FIXTURE_H

#include "common/base/prng.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/snapshot/snapshot_send.h"
#include "tests/manual_clock.h"
#include "tests/unit/server/node.h"

enum { KEYS = 400, ENTRIES_MAX = 4000, POOL_BYTES = (4 << 20) + (256 << 10), FRAMES_MAX = 512 };

struct world {
	struct prng random;
	struct manual_clock clock;
	int64_t now_ns;
	struct task_queue *loop;
	struct node a, b; /* a: the primary's node; b: the learner's node */
	struct kept kept[ENTRIES_MAX];
	/* The snapshot. */
	struct snapshot_sender *sender;
	uint64_t session;
	struct partition *into; /* NULL: no snapshot is being received */
	struct snapshot_receiver *receiver;
	struct message *frames[FRAMES_MAX]; /* (frames_count) sent, not received yet */
	uint32_t frames_count;
	struct message *recorded[FRAMES_MAX]; /* (recorded_count) all frames of a snapshot */
	uint32_t recorded_count;
	bool unwanted;
	bool send_ended, receive_ended, sink_ended;
	weir_status send_status, receive_status, sink_status;
	char text[WEIR_ERROR_TEXT_BYTES]; /* of the side that ended last */
};

/* a_pool, b_pool: memory budget for the rows of each node in bytes; 0: everything in memory. */
struct world *world_create(uint64_t seed, uint32_t a_pool, uint32_t b_pool);
void world_destroy(struct world *w); /* with its sender, if it is open */

/* --- The primary */
void push_rows(struct world *w, uint16_t table);
void steps(struct world *w, uint32_t n); /* n random operations */
void load(struct world *w);              /* at times one more operation, if kept[] has room */

/* Compares state and rows with a partition that has the same entries. */
void assert_equal_to_twin(struct world *w, struct partition *p);

/* --- The sender. Tests step it. Its frames are in w->frames. */
/* bytes_per_s 0: no limit. open_sender has the default window. */
void open_sender(struct world *w, uint64_t bytes_per_s);
void open_sender_with(struct world *w, uint64_t bytes_per_s, size_t window_bytes);
void close_sender(struct world *w);
void begin_session(struct world *w);
/* For snapshot_sender_options; arg: the world. */
void on_send_ended(void *arg, weir_status status, const char *text);
weir_status attach(struct world *w, uint64_t from, weir_error *err);
void attach_well(struct world *w);   /* from the receiver's position, if any */
void begin_sending(struct world *w); /* opens a sender and a session without a stream */
/* The same; each frame waits until the one before is received. */
void begin_sending_by_frame(struct world *w);
void cut_connection(struct world *w);
void drop_frames(struct world *w);
/* Records a snapshot of the partition in w->recorded. */
void record_snapshot(struct world *w);

/* --- The receiver: replaces the other node's partition */
struct snapshot_receiver_options receiver_options(struct world *w);
/* Requires w->into. */
void create_receiver(struct world *w, const struct snapshot_receiver_options *o);
void begin_receiver(struct world *w);
/* The node takes an installed partition; any other is discarded. */
void end_receiver(struct world *w);
void end_receiver_well(struct world *w); /* and compares it with the primary's */

/* --- Both */
void begin_both(struct world *w); /* opens a session and attaches a receiver */
void turn(struct world *w);       /* runs everything that can run now, once */
void turn_until_frames(struct world *w, uint32_t count);
void turn_until_send_ends(struct world *w);
void run_to_end(struct world *w, bool under_load);
void send_whole(struct world *w);
/* Copies the primary's entries behind the snapshot, up to `last`, to the other log and commits
 * them. */
void replay_tail(struct world *w, uint64_t last);

#endif
