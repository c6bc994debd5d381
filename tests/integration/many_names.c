/* many_names LEDGER COUNT: joins the job at LEDGER as a trainer under COUNT names, one after
 * another, and leaves each time, as replaced pods do. Exits 0 if all joins succeed. */
#include <stdio.h>
#include <stdlib.h>

#include "weir/weir.h"

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: many_names LEDGER COUNT\n");
		return 2;
	}
	const unsigned long count = strtoul(argv[2], NULL, 10);
	for (unsigned long i = 0; i < count; i++) {
		char name[64];
		weir_client *client;
		weir_error err = {0};
		snprintf(name, sizeof name, "pod-%lu", i);
		const weir_options options = {
		    .ledger = argv[1], .name = name, .role = WEIR_TRAINER, .dataset_fingerprint = 1, .dataset_units = 1};
		if (weir_open(&client, &options, &err) != WEIR_OK || weir_close(client, &err) != WEIR_OK) {
			fprintf(stderr, "many_names: %s: %s\n", name, err.text);
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}
