/* A fuzz target: one entry point for libFuzzer and for the smoke test, and seed inputs. */
#ifndef WEIR_FUZZ_H
#define WEIR_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Must not crash, hang or leak, whatever the bytes are. Asserts the invariants between the bytes
 * and the results. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Returns input i from malloc; NULL after the last. */
uint8_t *fuzz_seed(uint32_t i, size_t *size);

#endif
