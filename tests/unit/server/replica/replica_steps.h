/* One replica whose inputs a test gives step by step, and whose actions the test reads. */
#ifndef WEIR_TESTS_REPLICA_STEPS_H
#define WEIR_TESTS_REPLICA_STEPS_H

#include "server/replica/replica.h"

#define SELF 1

struct fixture {
	struct replica *r;
	struct heartbeat heartbeat;
	struct replica_actions out;
};

extern const struct replica_options options;
struct replica_record record_of(uint64_t revision, uint64_t epoch, uint16_t primary, uint16_t min_isr, uint16_t members);
void start(struct fixture *f, const struct replica_found *found);
const struct replica_action *find(const struct fixture *f, enum replica_action_kind kind);
const struct replica_message *sent(const struct fixture *f, enum replica_message_kind kind, uint16_t to);
void tick(struct fixture *f);
/* The coordinator's answer to a read. */
void read_record(struct fixture *f, struct replica_record n);
/* The coordinator accepts the proposed record. */
void change(struct fixture *f);
void receive(struct fixture *f, struct replica_message m);
/* Primary of epoch 1 with the members of `isr` (bits) in sync. Its first entry is stored. */
void become_primary_of(struct fixture *f, uint16_t min_isr, uint16_t isr);
/* With member 2 in sync. */
void become_primary(struct fixture *f, uint16_t min_isr);
void acknowledge(struct fixture *f, uint16_t from, uint64_t incarnation, uint64_t last);
struct replica_found found_log(uint64_t last);

#endif
