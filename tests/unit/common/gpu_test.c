#include <stdlib.h>
#include <string.h>

#include "common/system/gpu.h"
#include "tests/cmocka_check.h"
#include "tests/written.h"

static void devices_tell_what_they_know(void **state)
{
	(void)state;
	struct written w;
	struct gpu *g = gpu_open(FAKE_NVML);
	assert_non_null(g);
	gpu_series(g, written_begin(&w));
	gpu_close(g);
	char *text = written_end(&w);
	CHECK_CONTAINS(text, "weir_gpu_memory_used_bytes{device=\"Fake 0\",gpu=\"0\"} 400\n");
	CHECK_CONTAINS(text, "weir_gpu_memory_total_bytes{device=\"Fake 1\",gpu=\"1\"} 1000\n");
	CHECK_CONTAINS(text, "weir_gpu_utilization_ratio{device=\"Fake 0\",gpu=\"0\"} 0.75\n");
	CHECK_CONTAINS(text, "weir_gpu_memory_utilization_ratio{device=\"Fake 0\",gpu=\"0\"} 0.5\n");
	CHECK_CONTAINS(text, "weir_gpu_temperature_celsius{device=\"Fake 1\",gpu=\"1\"} 61\n");
	CHECK_CONTAINS(text, "weir_gpu_power_watts{device=\"Fake 0\",gpu=\"0\"} 250.5\n");
	CHECK_CONTAINS(text, "# TYPE weir_gpu_energy_joules_total counter\n");
	CHECK_CONTAINS(text, "weir_gpu_energy_joules_total{device=\"Fake 0\",gpu=\"0\"} 123.456\n");
	assert_null(strstr(text, "weir_gpu_energy_joules_total{device=\"Fake 1\""));
	assert_null(strstr(text, "Fake 2"));
	free(text);
}

static void without_the_library_there_are_no_devices(void **state)
{
	(void)state;
	struct written w;
	assert_null(gpu_open("libweir-there-is-no-such-library.so"));
	gpu_series(NULL, written_begin(&w));
	char *text = written_end(&w);
	assert_string_equal(text, "");
	free(text);
	gpu_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(devices_tell_what_they_know),
	    cmocka_unit_test(without_the_library_there_are_no_devices),
	};
	return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
