/* A backend that takes host arrays, over one whose memory is a device's: each op copies its arrays to buffers of the device, runs there, and copies
 * them back. So that every test of ops is also one of a device. Beyond either end of each buffer lie guards, which no op may change. */
#ifndef WEIR_TESTS_MIRROR_H
#define WEIR_TESTS_MIRROR_H

#include "kernels/backend.h"

/* Takes over `device`, which is destroyed with it. Its name is the device's. Fails the test where the device reports a failure. */
struct backend *mirror_of(struct backend *device);
/* The device that `b`, of mirror_of, is over: still `b`'s. */
struct backend *mirror_device(struct backend *b);

#endif
