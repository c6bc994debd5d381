/* A partition under load on one node, sent to another one: both ends of a snapshot, frame by frame, over simulated time. What the two partitions must be equal to is
 * one in memory that is given the same entries. */
#ifndef TEST_SNAPSHOT_FIXTURE_H
#define TEST_SNAPSHOT_FIXTURE_H

#include "common/base/prng.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/snapshot/snapshot_send.h"
#include "tests/unit/server/node.h"

enum { KEYS = 400, ENTRIES_MAX = 4000, POOL_BYTES = (4 << 20) + (256 << 10), FRAMES_MAX = 512 };

struct world {
	struct prng random;
	struct clock clock;
	int64_t now_ns;
	struct task_queue *loop;
	struct node a, b; /* the primary's, the learner's */
	struct kept kept[ENTRIES_MAX];
	/* The snapshot. */
	struct snapshot_sender *sender;
	uint64_t session;
	struct partition *into; /* NULL: none is received */
	struct snapshot_receiver *receiver;
	struct message *frames[FRAMES_MAX]; /* (frames_count) sent, and not taken */
	uint32_t frames_count;
	struct message *recorded[FRAMES_MAX]; /* (recorded_count) all frames of a snapshot */
	uint32_t recorded_count;
	bool unwanted;
	bool send_ended, receive_ended, sink_ended;
	weir_status send_status, receive_status, sink_status;
	char text[WEIR_ERROR_TEXT_BYTES]; /* of the one that ended last */
};

/* a_pool, b_pool: bytes of memory for the rows of each node; 0: it has all in memory. */
struct world *world_create(uint64_t seed, uint32_t a_pool, uint32_t b_pool);
void world_destroy(struct world *w);         /* with its sender, if it is open */
uint32_t below(struct world *w, uint32_t n); /* at random */

/* --- The primary */
void push_rows(struct world *w, uint16_t table);
void steps(struct world *w, uint32_t n); /* of all that can happen to it, at random */
void load(struct world *w);              /* sometimes one more, as far as there is place for its entries */

/* The partition is what its entries say: equal bytes of state, equal rows. */
void assert_equal_to_twin(struct world *w, struct partition *p);

/* --- The sender, which is stepped; the frames that it sends are in w->frames. 0: at any pace, of the usual window. */
void open_sender(struct world *w, uint64_t bytes_per_s);
void open_sender_with(struct world *w, uint64_t bytes_per_s, size_t window_bytes);
void close_sender(struct world *w);
void begin_session(struct world *w);
void on_send_ended(void *arg, weir_status status, const char *text); /* a session's end; arg: the world */
weir_status attach(struct world *w, uint64_t from, weir_error *err);
void attach_well(struct world *w);            /* from where the receiver is, if there is one */
void begin_sending(struct world *w);          /* opens a sender, with a session to which nobody is attached but us */
void begin_sending_by_frame(struct world *w); /* the same; each is kept back until the one before was received */
void cut_connection(struct world *w);
void drop_frames(struct world *w);
/* A snapshot as the partition is now, into w->recorded. */
void record_snapshot(struct world *w);

/* --- The receiver: of the other node, in place of what that has */
struct snapshot_receiver_options receiver_options(struct world *w);
void create_receiver(struct world *w, const struct snapshot_receiver_options *o); /* w->into is there */
void begin_receiver(struct world *w);
void end_receiver(struct world *w);      /* what was installed is the node's; else it goes */
void end_receiver_well(struct world *w); /* and is what the primary has */

/* --- Both */
void begin_both(struct world *w); /* a session, and a receiver attached to it */
void turn(struct world *w);       /* what can happen now, once */
void turn_until_frames(struct world *w, uint32_t count);
void turn_until_send_ends(struct world *w);
void run_to_end(struct world *w, bool under_load);
void send_whole(struct world *w);
/* What the primary's log has behind the snapshot, up to there, goes to the other one's, and is committed. */
void replay_tail(struct world *w, uint64_t last);

#endif
