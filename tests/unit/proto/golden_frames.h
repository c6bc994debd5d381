/* Frames whose bytes are committed in tests/golden: built here by the writer, compared by frame_test, written by golden_write. */
#ifndef GOLDEN_FRAMES_H
#define GOLDEN_FRAMES_H

#include "proto/frame/frame.h"

enum { GOLDEN_PUSH, GOLDEN_PULL, GOLDEN_REPLIES, GOLDEN_SEAL, GOLDEN_CLOSE_STEP, GOLDEN_CODED_KEYS, GOLDEN_FRAMES };
const char *golden_name(uint32_t i);
struct message *golden_build(uint32_t i);
/* The committed bytes (hexadecimal text, 16 bytes a line), malloc'ed; returns how many. Asserts that the file is there. */
size_t golden_read(uint32_t i, uint8_t **bytes);

#endif
