/* The tokens that end a text. As in transformers, eos_token_id is one token or a list;
 * generation_config.json has it, or config.json where that file is missing. */
#ifndef WEIR_GENERATION_CONFIG_H
#define WEIR_GENERATION_CONFIG_H

#include <stdint.h>

#include "weir/status.h"

#define GENERATION_ENDS_MAX 64u /* tokens that end a text */

struct generation_config {
	uint32_t ends[GENERATION_ENDS_MAX], ends_count; /* 0: the folder names none */
	/* Keys of generation_config.json that change the text and are not done here, with commas. */
	char ignored[256];
	char choice[128]; /* "do_sample true, temperature 0.6": for who reads; "": it says nothing */
};

/* E_INVALID names the file and the key. */
weir_status generation_config_read(const char *folder, struct generation_config *out, weir_error *err) WEIR_MUST_CHECK;

#endif
