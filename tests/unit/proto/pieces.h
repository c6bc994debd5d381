/* Messages of chosen bytes, cut into spans at will; each span is memory of its own, so that sanitizers see an overrun. */
#ifndef PIECES_H
#define PIECES_H

#include "common/base/message.h"

/* Spans of `cut` bytes (> 0), the last one shorter. One reference. */
struct message *pieces_of(const uint8_t *bytes, size_t n, size_t cut);
/* The message's bytes in one run, malloc'ed. */
uint8_t *pieces_join(const struct message *m);

#endif
