/* A trainer of a job whose partitions move one at a time. */
#ifndef WEIR_TESTS_MOVE_SCENE_H
#define WEIR_TESTS_MOVE_SCENE_H

#include "tests/unit/worker/client/integer_trainer.h"
#include "tests/unit/worker/client/mover.h"

/* How often the client has moved a request or retried it. */
uint64_t changes(weir_client *c);
void await_changes(weir_client *c, uint64_t count);

struct scene {
	struct cluster cluster;
	struct mover mover;
	struct trainer trainer;
	weir_unit unit;
};

void scene_open(struct scene *s);
void scene_close(struct scene *s);

#endif
