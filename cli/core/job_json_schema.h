/* The schema of job files as a JSON Schema (draft 2020-12), with which editors complete and check
 * them. Made from the table that the parser reads by; the descriptions are config/reference.yaml's.
 *
 * What a JSON Schema cannot say stays with `weir check`: rules between keys, ranges of sizes. A
 * value from the environment, ${NAME}, is valid everywhere. */
#ifndef WEIR_JOB_JSON_SCHEMA_H
#define WEIR_JOB_JSON_SCHEMA_H

#include "common/web/json.h"

/* NULL: out of memory. The caller destroys it. */
struct json *job_json_schema(void);

#endif
