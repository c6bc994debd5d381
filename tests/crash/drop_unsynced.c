/* drop_unsynced TRACE FOLDER SEED: removes from the folder of a killed program what the death of
 * its machine would have lost (image.h). Prints the number of bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/crash/image.h"

int main(int argc, char **argv)
{
	if (argc != 4) {
		fputs("usage: drop_unsynced TRACE FOLDER SEED\n", stderr);
		return 2;
	}
	struct disk_trace *t = trace_load(argv[1]);
	printf("%llu\n", (unsigned long long)image_drop_unsynced(t, argv[2], strtoull(argv[3], NULL, 10)));
	trace_free(t);
	return 0;
}
