#include "worker/model/index_array.h"

#include <stdlib.h>

#include "worker/model/scratch.h"

weir_status index_array_put(struct backend *b, uint32_t **buffer, const uint32_t *host, size_t n)
{
	const weir_status status = scratch_grow_words(b, buffer, n);
	if (status == WEIR_OK)
		b->ops->to_device(b, *buffer, host, n * sizeof *host);
	return status;
}

weir_status index_array_steps(struct backend *b, uint32_t **buffer, size_t n, uint32_t by, uint32_t times)
{
	uint32_t *host = n <= UINT32_MAX ? malloc((n + 1) * sizeof *host) : NULL;
	if (!host)
		return WEIR_E_MEMORY;
	for (size_t i = 0; i < n; i++)
		host[i] = (uint32_t)(i / by * times);
	const weir_status status = index_array_put(b, buffer, host, n);
	free(host);
	return status;
}
