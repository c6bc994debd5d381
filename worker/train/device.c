#include "device.h"

#include <string.h>

static bool is_cpu(const char *device)
{
	return strcmp(device, "cpu") == 0 || strcmp(device, "auto") == 0;
}

struct backend *device_open(const char *device, uint32_t threads, weir_error *err)
{
	struct backend *b = backend_open(is_cpu(device) ? "cpu" : device, threads, err);
	if (b == NULL || b->ops->host_memory)
		return b;
	b->ops->destroy(b);
	weir_fail(
	    err, WEIR_E_UNSUPPORTED,
	    "device: %s is there, but has memory of its own, and a worker of this release computes in the machine's: use device: cpu",
	    device);
	return NULL;
}

weir_status device_check(const char *device, weir_error *err)
{
	weir_error why = {0};
	if (is_cpu(device))
		return WEIR_OK;
	struct backend *b = device_open(device, 1, &why);
	if (b == NULL)
		return weir_fail(err, why.status, "%s", why.text);
	b->ops->destroy(b);
	return WEIR_OK;
}
