/* drop_unsynced TRACE FOLDER SEED: what a machine's death would have taken from a folder whose writer was killed (image.h). Prints the bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/crash/image.h"

int main(int argc, char **argv)
{
	if (argc != 4) {
		fputs("usage: drop_unsynced TRACE FOLDER SEED\n", stderr);
		return 2;
	}
	struct trace *t = trace_load(argv[1]);
	printf("%llu\n", (unsigned long long)image_drop_unsynced(t, argv[2], strtoull(argv[3], NULL, 10)));
	trace_free(t);
	return 0;
}
