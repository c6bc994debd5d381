/* Answers --help and --version. */
#include "common/system/program_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Flushes here, so that a full disk or a closed pipe is noticed; at exit, nobody would see it. */
static int end_output(const char *name)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s: cannot write stdout\n", name);
	return EXIT_FAILURE;
}

int program_help(int argc, char **argv, const struct program_help *help)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			printf("%s\n%s", help->usage, help->options);
			return end_output(help->name);
		}
		if (strcmp(argv[i], "--version") == 0) {
			printf("%s %s\n", help->name, WEIR_VERSION);
			return end_output(help->name);
		}
	}
	return -1;
}
