/* A fuzz target: one entry for every input, the same for libFuzzer and for the smoke test, and a few inputs to begin with. */
#ifndef WEIR_FUZZ_H
#define WEIR_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Must not crash, hang or leak whatever the bytes are; asserts what must hold between them and the results. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Input i, malloc'ed; NULL after the last. */
uint8_t *fuzz_seed(uint32_t i, size_t *size);

#endif
