#include "worker/data/format/csv_scan.h"

static size_t cells_by_byte(struct csv_scan *s, const char *data, size_t n, uint32_t *ends)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		ends[count] = (uint32_t)i;
		count += csv_scan_byte(s, data[i]);
	}
	return count;
}

static size_t rows_by_byte(struct csv_scan *s, const char *data, size_t n)
{
	size_t bytes = 0;
	for (size_t i = 0; i < n; i++)
		if (csv_scan_byte(s, data[i]) && data[i] == '\n')
			bytes = i + 1;
	return bytes;
}

static const struct csv_scan_ops by_byte = {"byte by byte", cells_by_byte, rows_by_byte};

#if defined(__x86_64__)
extern const struct csv_scan_ops csv_scan_avx2, csv_scan_avx512;

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt") &&
	       __builtin_cpu_supports("pclmul");
}

static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

const struct csv_scan_ops *csv_scan_variant(unsigned i)
{
	if (i == 0)
		return &by_byte;
	if (i == 1 && has_avx2())
		return &csv_scan_avx2;
	if (i == 2 && has_avx512())
		return &csv_scan_avx512;
	return NULL;
}
#else
const struct csv_scan_ops *csv_scan_variant(unsigned i)
{
	return i == 0 ? &by_byte : NULL;
}
#endif

const struct csv_scan_ops *csv_scan_best(void)
{
	const struct csv_scan_ops *best = &by_byte;
	for (unsigned i = 1; csv_scan_variant(i); i++)
		best = csv_scan_variant(i);
	return best;
}
