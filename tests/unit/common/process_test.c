/* Facts about this process and its machine, from the system. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/system/process.h"
#include "tests/cmocka_check.h"
#include "tests/written.h"

static void memory_that_is_used_counts(void **state)
{
	(void)state;
	enum { BYTES = 64 << 20 };
	const uint64_t before = process_memory();
	/* volatile keeps the compiler from dropping the writes */
	volatile char *memory = malloc(BYTES);
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

static void processors_are_those_that_it_is_bound_to(void **state)
{
	(void)state;
	cpu_set_t before, one;
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	assert_in_range(process_cores(), 1, (uint32_t)CPU_COUNT(&before));
	int first = 0;
	while (!CPU_ISSET(first, &before))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(process_cores(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void descriptors_are_as_many_as_may_be(void **state)
{
	(void)state;
	struct rlimit before, now;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = before;
	now.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	process_raise_descriptors();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_int_equal(now.rlim_cur, before.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void series_are_those_of_this_process(void **state)
{
	(void)state;
	struct written w;
	process_series(written_begin(&w));
	char *text = written_end(&w);
	static const char *const names[] = {"process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds",
	                                    "process_max_fds", "process_cpu_seconds_total"};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		char begin[64];
		snprintf(begin, sizeof begin, "\n%s ", names[i]);
		CHECK_CONTAINS(text, begin);
	}
	CHECK_CONTAINS(text, "\nprocess_threads 1\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_that_is_used_counts),
	    cmocka_unit_test(the_boot_of_the_machine_is_the_kernels),
	    cmocka_unit_test(processors_are_those_that_it_is_bound_to),
	    cmocka_unit_test(descriptors_are_as_many_as_may_be),
	    cmocka_unit_test(series_are_those_of_this_process),
	};
	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
