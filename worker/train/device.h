/* Which compute backend a worker uses. */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include <stdint.h>

#include "backend.h"

/* Opens what the job's `device` names. A worker's batches, and what it pulls and pushes, lie in the machine's own memory: `auto` is the CPU, and a
 * device of another memory is refused with E_UNSUPPORTED. NULL after a failure. */
struct backend *device_open(const char *device, uint32_t threads, weir_error *err);
/* That device_open will find it; opens nothing that stays. The CPU is always there. */
weir_status device_check(const char *device, weir_error *err);

#endif
