/* Energy counters of made-up machines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/system/energy.h"
#include "tests/folder.h"

#define NO_LIBRARY "libweir-there-is-no-such-library.so"

struct machine {
	char root[FOLDER_BYTES];
};

static void write_file(const struct machine *m, const char *zone, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s/%s", m->root, zone, name);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
}

static void set(const struct machine *m, const char *zone, unsigned long long microjoules)
{
	char text[32];
	snprintf(text, sizeof text, "%llu\n", microjoules);
	write_file(m, zone, "energy_uj", text);
}

/* Adds a zone whose counter goes up to 1000 joules. */
static void add_zone(const struct machine *m, const char *zone, const char *name, unsigned long long microjoules)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", m->root, zone);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(m, zone, "name", name);
	write_file(m, zone, "max_energy_range_uj", "1000000000\n");
	set(m, zone, microjoules);
}

static double cpu_of(struct energy *e)
{
	struct energy_used used;
	energy_look(e, &used);
	assert_true(used.of_cpu);
	return used.cpu;
}

static void packages_and_memory_count_once(void **state)
{
	(void)state;
	struct machine m;
	folder_create(m.root);
	add_zone(&m, "intel-rapl:0", "package-0\n", 10);
	add_zone(&m, "intel-rapl:0:0", "core\n", 10);
	add_zone(&m, "intel-rapl:0:1", "dram\n", 10);
	add_zone(&m, "intel-rapl:1", "package-1\n", 10);
	add_zone(&m, "intel-rapl:2", "psys\n", 10);
	add_zone(&m, "intel-rapl-mmio:0", "package-0\n", 10);
	struct energy *e = energy_open(m.root, NO_LIBRARY);
	assert_non_null(e);
	assert_true(cpu_of(e) == 0);
	const char *const zones[] = {"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1",
	                             "intel-rapl:1", "intel-rapl:2",   "intel-rapl-mmio:0"};
	for (size_t i = 0; i < sizeof zones / sizeof *zones; i++)
		set(&m, zones[i], 10 + 2000000);
	assert_true(fabs(cpu_of(e) - 6) < 1e-9);
	assert_true(fabs(cpu_of(e) - 6) < 1e-9);
	energy_close(e);
	folder_remove(m.root);
}

static void a_counter_begins_anew_at_its_end(void **state)
{
	(void)state;
	struct machine m;
	folder_create(m.root);
	add_zone(&m, "intel-rapl:0", "package-0\n", 999000000);
	struct energy *e = energy_open(m.root, NO_LIBRARY);
	assert_non_null(e);
	set(&m, "intel-rapl:0", 2000000);
	assert_true(fabs(cpu_of(e) - 3) < 1e-9);
	set(&m, "intel-rapl:0", 500000000);
	assert_true(fabs(cpu_of(e) - 501) < 1e-9);
	set(&m, "intel-rapl:0", 0);
	assert_true(fabs(cpu_of(e) - 1001) < 1e-9);
	energy_close(e);
	folder_remove(m.root);
}

static void without_packages_the_platform_counts(void **state)
{
	(void)state;
	struct machine m;
	folder_create(m.root);
	add_zone(&m, "intel-rapl:0", "psys\n", 0);
	struct energy *e = energy_open(m.root, NO_LIBRARY);
	assert_non_null(e);
	set(&m, "intel-rapl:0", 7000000);
	assert_true(fabs(cpu_of(e) - 7) < 1e-9);
	energy_close(e);
	folder_remove(m.root);
}

static void a_counter_that_cannot_be_read_is_left_out(void **state)
{
	(void)state;
	struct machine m;
	struct energy_used used;
	folder_create(m.root);
	add_zone(&m, "intel-rapl:0", "package-0\n", 5);
	write_file(&m, "intel-rapl:0", "energy_uj", "none\n");
	assert_null(energy_open(m.root, NO_LIBRARY));
	assert_null(energy_open("/there/is/no/such/folder", NO_LIBRARY));
	energy_look(NULL, &used);
	assert_false(used.of_cpu || used.of_gpu);
	folder_remove(m.root);
}

static void devices_are_those_that_tell(void **state)
{
	(void)state;
	struct energy_used used;
	struct energy *e = energy_open("/there/is/no/such/folder", FAKE_NVML);
	assert_non_null(e);
	energy_look(e, &used);
	assert_true(used.of_gpu && !used.of_cpu);
	assert_true(used.gpu == 0); /* the made-up counter stands still */
	energy_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(packages_and_memory_count_once),       cmocka_unit_test(a_counter_begins_anew_at_its_end),
	    cmocka_unit_test(without_packages_the_platform_counts), cmocka_unit_test(a_counter_that_cannot_be_read_is_left_out),
	    cmocka_unit_test(devices_are_those_that_tell),
	};
	return cmocka_run_group_tests_name("energy", tests, NULL, NULL);
}
