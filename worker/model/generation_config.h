/* What a model folder says of the end of a text: eos_token_id, one token or a list, of generation_config.json, or where there is no such file of config.json; as
 * transformers reads them. */
#ifndef WEIR_GENERATION_CONFIG_H
#define WEIR_GENERATION_CONFIG_H

#include <stdint.h>

#include "weir/status.h"

#define GENERATION_ENDS_MAX 64u /* tokens that end a text */

struct generation_config {
	uint32_t ends[GENERATION_ENDS_MAX], ends_count; /* 0: the folder names none */
	char ignored
	    [256]; /* keys of generation_config.json that change which tokens follow and are not done here: "min_length, stop_strings"; "": none */
};

/* E_INVALID names the file and the key. */
weir_status generation_config_read(const char *folder, struct generation_config *out, weir_error *err) WEIR_MUST_CHECK;

#endif
