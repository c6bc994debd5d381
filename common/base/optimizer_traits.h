/* The map of optimizers (weir/table.h) as a table. The arithmetic of each is in kernels/rules. */
#ifndef WEIR_OPTIMIZER_TRAITS_H
#define WEIR_OPTIMIZER_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/table.h"

/* fp32 numbers per element kept beside the value (0 to 2); 0 for an unknown kind. */
uint32_t optimizer_slots(weir_optimizer_kind kind);
/* False for an unknown kind. */
bool optimizer_has(weir_optimizer_kind kind, enum weir_optimizer_trait trait);

#endif
