/* Frames whose bytes are in tests/golden: the writer builds them here, frame_test compares them,
 * golden_write writes them. */
#ifndef GOLDEN_FRAMES_H
#define GOLDEN_FRAMES_H

#include "proto/frame/frame.h"

enum { GOLDEN_PUSH, GOLDEN_PULL, GOLDEN_REPLIES, GOLDEN_SEAL, GOLDEN_CLOSE_STEP, GOLDEN_CODED_KEYS, GOLDEN_FRAMES };
const char *golden_name(uint32_t i);
struct message *golden_build(uint32_t i);
/* The golden bytes, malloc'ed, from hexadecimal text with 16 bytes a line; returns their count.
 * Asserts that the file exists. */
size_t golden_read(uint32_t i, uint8_t **bytes);

#endif
