/* Reads the tokens that end a text. As in transformers, eos_token_id is one token or a list, from
 * generation_config.json or, if that file is missing, from config.json. */
#ifndef WEIR_GENERATION_CONFIG_H
#define WEIR_GENERATION_CONFIG_H

#include <stdint.h>

#include "weir/status.h"

#define GENERATION_ENDS_MAX 64u /* tokens that end a text */

struct generation_config {
	uint32_t ends[GENERATION_ENDS_MAX], ends_count; /* count 0: the folder names none */
	/* The keys of generation_config.json that change the text but are not supported, separated by
	 * commas. */
	char ignored[256];
	char choice[128]; /* for display: "do_sample true, temperature 0.6"; "" if unspecified */
};

/* E_INVALID names the file and the key. */
weir_status generation_config_read(const char *folder, struct generation_config *out, weir_error *err) WEIR_MUST_CHECK;

#endif
