/* Whether two folders, of models or of adapters, differ in their weights alone: tensors of equal
 * names and shapes may mean different things. */
#ifndef WEIR_FOLDERS_SAME_H
#define WEIR_FOLDERS_SAME_H

#include <stdbool.h>

#include "weir/status.h"

/* E_INVALID names the key of config.json, or of adapter_config.json, and both values. Also
 * models that are not computed here are compared, key by key. */
weir_status folders_same(const char *a, const char *b, bool adapters, weir_error *err) WEIR_MUST_CHECK;

#endif
