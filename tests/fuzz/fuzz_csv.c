/* CSV: each row becomes a whole row or nothing; the variants of the scan agree; a text cut after
 * whole rows gives the same rows.
 *
 * Input: u8 settings (table_rows.h; 4: delimiter ';', 32: no quotes), the text. */
#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/table_rows.h"
#include "worker/data/format/csv_scan.h"

static void check_scan(struct csv_marks marks, const char *text, size_t n)
{
	uint32_t *expected = malloc((n + CSV_SCAN_SLACK) * sizeof *expected), *got = malloc((n + CSV_SCAN_SLACK) * sizeof *got);
	struct csv_scan first = {.marks = marks};
	const size_t count = csv_scan_variant(0)->cells(&first, text, n, expected);
	const struct csv_scan_ops *ops;
	assert(expected && got);
	for (unsigned v = 1; (ops = csv_scan_variant(v)) != NULL; v++) {
		struct csv_scan scan = {.marks = marks}, again = {.marks = marks};
		assert(ops->cells(&scan, text, n, got) == count && memcmp(got, expected, count * sizeof *got) == 0);
		assert(scan.state == first.state && scan.quotes == first.quotes && scan.high == first.high && scan.zeros == first.zeros);
		assert(ops->rows(&again, text, n) <= n);
	}
	free(expected);
	free(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct table_layout layout = table_rows_layout(data[0]);
	layout.rows = ROWS_CSV;
	layout.marks = (struct csv_marks){data[0] & 4 ? ';' : ',', data[0] & 32 ? 0 : '"'};
	const char *text = (const char *)data + 1;
	const size_t n = size - 1;
	struct csv_scan scan = {.marks = layout.marks};
	check_scan(layout.marks, text, n);
	table_rows_read(&layout, DATA_CSV, data[0], text, n, csv_scan_best()->rows(&scan, text, n / 2));
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const struct {
		uint8_t settings;
		const char *text;
	} seeds[] = {{0, "1,user,a|b|c|d,x|y|z,0.5,2,session\n0,,,,,1,\n"},
	             {0, "1,\"us,er\",\"a|\"\"b\"\"\",\"x\n|y\",1e3,\"0.25\",g\r\n\r\n-1,u,|a||,|,4096,0,\r\n"},
	             {1, "?,u,a,b,,1,\n,u,a,b,3,1,g\nnan,u,\"a\",b,-2,1,g\n"},
	             {4, "1;5\" pipe;a;b;1;1;g\n0;\"a\"b;a;b;1;1;g\n"},
	             {8, "1,u,a,b,1,2\n0,\"v\",\"\",,,\n1,\xc3\xa9,a,b,1e99,2\n"},
	             {10, "1,u,a,b,1,2\n0,v\n1,\"not closed,a,b,1,2\n0,u,a,b,1,2\n"}};
	return i < sizeof seeds / sizeof *seeds ? table_rows_seed(seeds[i].settings, seeds[i].text, size) : NULL;
}
