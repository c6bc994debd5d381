/* weir schema: the schema of job files, for editors. */
#include <stdlib.h>

#include "cli/core/job_json_schema.h"
#include "cli/core/options.h"
#include "cli/core/verbs.h"

int verb_schema(int count, char **args)
{
	weir_error err = {0};
	weir_status status = options_parse(count, args, NULL, 0, NULL, 0, &err);
	if (status != WEIR_OK)
		return verb_usage("schema", &err);
	struct json *j = job_json_schema();
	status = j ? json_print(j, stdout, &err) : weir_fail(&err, WEIR_E_MEMORY, "no memory for the schema");
	json_destroy(j);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("schema", &err);
}
