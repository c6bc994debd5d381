/* Messages of chosen bytes in spans of chosen sizes. Each span is a separate allocation, so that
 * sanitizers detect an overrun. */
#ifndef PIECES_H
#define PIECES_H

#include "common/base/message.h"

/* Spans of `cut` bytes (> 0); the last may be shorter. Returns one reference. */
struct message *pieces_of(const uint8_t *bytes, size_t n, size_t cut);
/* The message's bytes in one malloc'ed run. */
uint8_t *pieces_join(const struct message *m);

#endif
