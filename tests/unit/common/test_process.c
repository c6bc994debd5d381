/* What the system says of this process and of its machine. */
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_check.h"
#include "process.h"

static void memory_that_is_used_counts(void **state)
{
	(void)state;
	enum { BYTES = 64 << 20 };
	const uint64_t before = process_memory();
	volatile char *memory = malloc(BYTES); /* volatile: what nobody reads would not be written */
	assert_non_null(memory);
	for (size_t i = 0; i < BYTES; i += 4096)
		memory[i] = 1;
	assert_true(process_memory() >= before + BYTES / 2);
	free((void *)memory);
}

static void the_boot_of_the_machine_is_the_kernels(void **state)
{
	(void)state;
	uint8_t id[16], again[16];
	char text[33] = "", said[64] = "", *at = text;
	if (!process_machine_boot(id))
		skip();
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	assert_non_null(f);
	assert_non_null(fgets(said, sizeof said, f));
	fclose(f);
	for (const char *c = said; *c && *c != '\n'; c++)
		if (*c != '-' && at < text + 32)
			*at++ = *c;
	for (uint32_t i = 0; i < 16; i++) {
		char hex[3];
		snprintf(hex, sizeof hex, "%02x", id[i]);
		assert_memory_equal(hex, text + 2 * i, 2);
	}
	assert_true(process_machine_boot(again));
	assert_memory_equal(id, again, sizeof id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_that_is_used_counts),
	    cmocka_unit_test(the_boot_of_the_machine_is_the_kernels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
