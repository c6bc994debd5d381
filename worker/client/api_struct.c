/* Sizes of public structs, and the functions that fill them with defaults. */
#include "worker/client/api_struct.h"

#include <math.h>
#include <string.h>

#include "common/base/limits.h"

struct shape {
	const char *name;
	size_t bytes_v2, bytes;
};

static const struct shape shapes[] = {
#define SHAPE(type, v2) [API_##type] = {#type, v2, sizeof(type)},
    API_STRUCT_MAP(SHAPE)
#undef SHAPE
};

#define CHECK_SHAPE(type, v2)                                                               \
	_Static_assert(offsetof(type, size) == 0, #type ".size must come first");               \
	_Static_assert(sizeof(((type *)0)->size) == sizeof(size_t), #type ".size is a size_t"); \
	_Static_assert(sizeof(type) >= (v2), #type " has lost fields of API version 2");
API_STRUCT_MAP(CHECK_SHAPE)
#undef CHECK_SHAPE

size_t api_struct_bytes(enum api_struct type, const void *first)
{
	size_t size;
	memcpy(&size, first, sizeof size);
	return size ? size : shapes[type].bytes_v2;
}

weir_status api_struct_check(enum api_struct type, const void *out, weir_error *err)
{
	const size_t size = api_struct_bytes(type, out);
	if (size >= sizeof size && size <= WEIR_API_STRUCT_BYTES_MAX)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_VERSION, "%s.size is %zu: set all of the struct to 0, or call %s_init", shapes[type].name, size,
	                 shapes[type].name);
}

weir_status api_struct_read(enum api_struct type, void *out, const void *in, weir_error *err)
{
	const struct shape *s = &shapes[type];
	memset(out, 0, s->bytes);
	weir_status status = in ? api_struct_check(type, in, err) : WEIR_OK;
	const size_t size = in && status == WEIR_OK ? api_struct_bytes(type, in) : 0;
	for (size_t i = s->bytes; i < size; i++)
		if (((const unsigned char *)in)[i])
			return weir_fail(err, WEIR_E_VERSION,
			                 "%s has %zu bytes and sets a field beyond the %zu that libweir " WEIR_VERSION
			                 " knows: use a newer libweir, or leave the field 0",
			                 s->name, size, s->bytes);
	if (size)
		memcpy(out, in, size < s->bytes ? size : s->bytes);
	memcpy(out, &s->bytes, sizeof s->bytes);
	return status;
}

void api_struct_write(enum api_struct type, void *out, const void *in)
{
	const struct shape *s = &shapes[type];
	const size_t size = api_struct_bytes(type, out), known = size < s->bytes ? size : s->bytes;
	unsigned char *to = out;
	const unsigned char *from = in;
	memcpy(to + sizeof size, from + sizeof size, known - sizeof size);
	memset(to + known, 0, size - known);
}

/* --- Defaults */

/* Fills the caller's struct, of `size` bytes, and sets its `size`. */
static void init(enum api_struct type, void *out, size_t size, const void *defaults)
{
	if (size < sizeof size || size > WEIR_API_STRUCT_BYTES_MAX)
		return; /* there is no room even for the size */
	memcpy(out, &size, sizeof size);
	api_struct_write(type, out, defaults);
}

void weir_options_init(weir_options *out, size_t size)
{
	const weir_options o = {.connect_timeout_ms = WEIR_CONNECT_TIMEOUT_MS, .security.reload_s = WEIR_CERTIFICATE_RELOAD_S};
	init(API_weir_options, out, size, &o);
}

void weir_table_spec_init(weir_table_spec *out, size_t size)
{
	const weir_table_spec t = {
	    .optimizer = {.kind = WEIR_OPT_ADAM,
	                  .lr = 1e-3f,
	                  .momentum = 0.9f,
	                  .beta1 = 0.9f,
	                  .beta2 = 0.999f,
	                  .eps = 1e-8f,
	                  .ftrl_beta = 1,
	                  .window = 1,
	                  .schedule.gamma = 1},
	    .push = {.density = 0.01f, .values = WEIR_VALUES_LOG4, .feedback = true},
	    .pull = {.density = 0.02f, .values = WEIR_VALUES_BF16, .every = 1},
	    .admission = {.count = 1, .probability = 1},
	    .eviction.half_life_s = 86400,
	};
	init(API_weir_table_spec, out, size, &t);
}

void weir_evaluation_init(weir_evaluation *out, size_t size)
{
	init(API_weir_evaluation, out, size, &(weir_evaluation){.auc = NAN, .logloss = NAN});
}

void weir_push_options_init(weir_push_options *out, size_t size)
{
	init(API_weir_push_options, out, size, &(weir_push_options){.weight = 1});
}

void weir_report_init(weir_report *out, size_t size)
{
	init(API_weir_report, out, size, &(weir_report){0});
}

void weir_stats_init(weir_stats *out, size_t size)
{
	init(API_weir_stats, out, size, &(weir_stats){0});
}

void weir_job_init(weir_job *out, size_t size)
{
	init(API_weir_job, out, size, &(weir_job){0});
}

void weir_scan_rows_init(weir_scan_rows *out, size_t size)
{
	init(API_weir_scan_rows, out, size, &(weir_scan_rows){0});
}

void weir_columns_rows_init(weir_columns_rows *out, size_t size)
{
	init(API_weir_columns_rows, out, size, &(weir_columns_rows){0});
}

/* --- Versions */

uint32_t weir_api_version(void)
{
	return WEIR_API_VERSION;
}

const char *weir_version(void)
{
	return WEIR_VERSION;
}
