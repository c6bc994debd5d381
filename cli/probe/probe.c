#include "cli/probe/probe_internal.h"
#include "common/system/process.h"

weir_status probe_measure(struct job *job, struct logger *logger, struct plan_figures *out, weir_error *err)
{
	struct probe_data data;
	struct probe_computer computer = {0};
	*out = (struct plan_figures){.cores = process_cores()};
	weir_status status = probe_data_open(&data, job, logger, out, err);
	if (status == WEIR_OK)
		status = probe_computer_open(&computer, &data, 1, err);
	if (status == WEIR_OK)
		status = probe_compute(&data, &computer, out, err);
	if (status == WEIR_OK)
		status = probe_legs(&data, &computer, out, err);
	probe_computer_close(&computer);
	probe_data_close(&data);
	return status;
}
