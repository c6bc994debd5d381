/* A backend that takes host arrays, over one with device memory. Each op copies its arrays to
 * device buffers, runs there, and copies them back, so every test of ops also tests a device.
 * Guards surround each buffer; no op may change them. */
#ifndef WEIR_TESTS_MIRROR_H
#define WEIR_TESTS_MIRROR_H

#include "kernels/backend.h"

/* Takes ownership of `device`. Has the device's name. Fails the test if the device reports a
 * failure. */
struct backend *mirror_of(struct backend *device);
/* The device under `b`, a backend of mirror_of. `b` keeps ownership. */
struct backend *mirror_device(struct backend *b);

#endif
