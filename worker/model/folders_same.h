/* Checks whether two folders, of models or of adapters, differ only in their weights. Tensors with
 * equal names and shapes may still mean different things. */
#ifndef WEIR_FOLDERS_SAME_H
#define WEIR_FOLDERS_SAME_H

#include <stdbool.h>

#include "weir/status.h"

/* Models that cannot be computed here are compared too, key by key. E_INVALID names the key of
 * config.json or adapter_config.json, and both values. Returns WEIR_OK if neither model folder has
 * a config.json; E_NOT_FOUND names the folder that alone lacks it. */
weir_status folders_same(const char *a, const char *b, bool adapters, weir_error *err) WEIR_MUST_CHECK;

#endif
