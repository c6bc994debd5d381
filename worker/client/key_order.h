/* Sorts keys in rising order, together with their indices. */
#ifndef WEIR_KEY_ORDER_H
#define WEIR_KEY_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Sorts keys (n), and order (n) with them; stable. Each scratch array has n elements. */
void key_order(uint64_t *keys, uint32_t *order, size_t n, uint64_t *keys_scratch, uint32_t *order_scratch);

#endif
