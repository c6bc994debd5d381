/* Distinct keys of a batch, on the host: for the CPU backend, and for small batches of the CUDA
 * backend (cuda/unique.cu). */
#ifndef WEIR_UNIQUE_H
#define WEIR_UNIQUE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct unique_slot {
	uint64_t key;
	uint32_t index, stamp; /* valid if stamp is the present call's */
};

/* Zero-initialise before use. */
struct unique_table {
	struct unique_slot *slots; /* (slots_count), a power of two */
	size_t slots_count;
	uint32_t stamp;
};

/* keys (n) -> unique_keys (<= n) in order of first use, index (n) into it; returns how many. */
size_t unique_of(struct unique_table *t, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index);
void unique_destroy(struct unique_table *t);

#ifdef __cplusplus
}
#endif
#endif
