/* The scan of CSV: each variant finds the cells that the scan by byte finds, in any text, wherever
 * the text is cut in two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "worker/data/format/csv_scan.h"

enum { TEXT_MAX = 400 };

/* Text of a few bytes that matter, with more or fewer quotes. */
static size_t random_text(struct prng *r, char out[TEXT_MAX])
{
	static const char *const alphabets[] = {"ab,\n\"", "a,\n", "\"\",\n", "abcdefghijklmnop,\"\n", "a;,\r\n\"\x80\xff"};
	const char *alphabet = alphabets[prng_below(r, 5)];
	const size_t n = prng_below(r, TEXT_MAX), letters = strlen(alphabet);
	for (size_t i = 0; i < n; i++)
		out[i] = prng_below(r, 97) == 0 ? (char)prng_below(r, 256) : alphabet[prng_below(r, letters)];
	return n;
}

static void check_cells(const struct csv_scan_ops *ops, const char *text, size_t n, size_t cut)
{
	uint32_t expected[TEXT_MAX + CSV_SCAN_SLACK], got[TEXT_MAX + 2 * CSV_SCAN_SLACK];
	struct csv_scan a = {.marks = {',', '"'}}, b = {.marks = {',', '"'}};
	const size_t count = csv_scan_variant(0)->cells(&a, text, n, expected);
	size_t found = ops->cells(&b, text, cut, got);
	const size_t first = found;
	found += ops->cells(&b, text + cut, n - cut, got + found);
	for (size_t i = first; i < found; i++)
		got[i] += (uint32_t)cut;
	if (found != count || memcmp(got, expected, count * sizeof *got) != 0 || memcmp(&a, &b, sizeof a) != 0)
		fail_msg("%s, cut at %zu of %zu: %zu cells, not %zu, state %d, not %d, in '%.*s'", ops->name, cut, n, found, count,
		         b.state, a.state, (int)n, text);
}

static void check_rows(const struct csv_scan_ops *ops, const char *text, size_t n)
{
	struct csv_scan a = {.marks = {',', '"'}}, b = {.marks = {',', '"'}};
	const size_t expected = csv_scan_variant(0)->rows(&a, text, n), got = ops->rows(&b, text, n);
	if (got != expected || memcmp(&a, &b, sizeof a) != 0)
		fail_msg("%s: %zu bytes of rows, not %zu, in '%.*s'", ops->name, got, expected, (int)n, text);
}

static void variants_agree_on_random_texts_cut_anywhere(void **state)
{
	(void)state;
	struct prng r;
	char text[TEXT_MAX];
	prng_seed(&r, 1);
	for (uint32_t round = 0; round < rounds(600); round++) {
		const size_t n = random_text(&r, text);
		const struct csv_scan_ops *ops;
		for (unsigned v = 1; (ops = csv_scan_variant(v)) != NULL; v++) {
			check_rows(ops, text, n);
			for (size_t cut = 0; cut <= n; cut++)
				check_cells(ops, text, n, cut);
		}
	}
}

/* What the rules say, with each cell shifted over the blocks of a vector. */
static void quotes_hide_delimiters_and_newlines(void **state)
{
	static const struct {
		const char *text, *ends; /* ends: ^ where a cell ends */
	} cases[] = {{"a,b\n", " ^ ^"},
	             {"\"a,b\",c\n", "     ^ ^"},
	             {"\"a\nb\",c\n", "     ^ ^"},
	             {"\"a\"\"b,\",c\n", "       ^ ^"},
	             {"5\" pipe,6\" pipe\n", "       ^       ^"},
	             {"\"a\"x\",b\n", "     ^ ^"},
	             {"\"\",\"\"\n", "  ^  ^"},
	             {"\"\"\",\"\"\"\n", "       ^"},
	             {",\n", "^^"},
	             {"a\"b,\"c,d\"\n", "   ^     ^"}};
	(void)state;
	const struct csv_scan_ops *ops;
	for (unsigned v = 0; (ops = csv_scan_variant(v)) != NULL; v++)
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
			for (size_t before = 0; before < 130; before++) {
				char text[TEXT_MAX];
				uint32_t ends[TEXT_MAX + CSV_SCAN_SLACK];
				struct csv_scan scan = {.marks = {',', '"'}};
				const size_t n = strlen(cases[i].text);
				memset(text, '\n', before);
				memcpy(text + before, cases[i].text, n);
				memset(text + before + n, '\n', 70);
				const size_t count = ops->cells(&scan, text, before + n + 70, ends);
				size_t at = before;
				for (size_t k = 0; k < strlen(cases[i].ends); k++)
					if (cases[i].ends[k] == '^' && ends[at++] != before + k)
						fail_msg("%s, '%s' at %zu: cell %zu ends at %u, not %zu", ops->name, cases[i].text, before, at - before,
						         ends[at - 1], before + k);
				assert_int_equal(count, at + 70);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(variants_agree_on_random_texts_cut_anywhere),
	    cmocka_unit_test(quotes_hide_delimiters_and_newlines),
	};
	return cmocka_run_group_tests_name("data_csv_scan", tests, NULL, NULL);
}
