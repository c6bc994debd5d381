/* Launches on other machines, whose trainers use the servers of this one. */
#ifndef WEIR_OTHER_LAUNCHES_H
#define WEIR_OTHER_LAUNCHES_H

#include "cli/run/train.h"

/* Tells whether this launch leaves some of the trainers to launches that join its servers. */
bool other_launches_served(const struct train *t);
/* Tells whether their trainers train, by a poll sent since the last trainer here ended, and says
 * once that the servers stay for them. True before such a poll. */
bool other_launches_train(struct train *t);

#endif
