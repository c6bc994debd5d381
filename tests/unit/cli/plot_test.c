/* Plots are well-formed SVG, equal a golden file byte for byte, and are readable on white and
 * black. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/plot.h"
#include "common/system/disk.h"
#include "tests/occurrences.h"

/* --- The XML subset of a plot: tags, attributes in double quotes, text, the five entities. */

enum { DEPTH_MAX = 16, TAG_BYTES_MAX = 32, FILE_BYTES_MAX = 1 << 20 };

struct xml {
	const char *at;
	char open[DEPTH_MAX][TAG_BYTES_MAX];
	unsigned depth, elements;
};

static const char *entity(const char *at)
{
	static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"};
	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (strncmp(at, known[i], strlen(known[i])) == 0)
			return at + strlen(known[i]);
	fail_msg("no entity: %.20s", at);
	return NULL;
}

static void read_characters(struct xml *x, const char *until)
{
	while (*x->at && !strchr(until, *x->at)) {
		assert_true((unsigned char)*x->at >= ' ' || *x->at == '\n');
		x->at = *x->at == '&' ? entity(x->at) : x->at + 1;
	}
}

static void read_word(struct xml *x, char out[TAG_BYTES_MAX])
{
	unsigned n = 0;
	while (isalnum((unsigned char)*x->at) || *x->at == '-' || *x->at == ':') {
		assert_true(n + 1 < TAG_BYTES_MAX);
		out[n++] = *x->at++;
	}
	assert_true(n > 0);
	out[n] = '\0';
}

static void read_open_tag(struct xml *x)
{
	char attribute[TAG_BYTES_MAX];
	assert_true(x->depth < DEPTH_MAX);
	read_word(x, x->open[x->depth]);
	x->elements++;
	for (;;) {
		const char *before = x->at;
		while (isspace((unsigned char)*x->at))
			x->at++;
		if (*x->at == '/' || *x->at == '>')
			break;
		assert_true(x->at > before);
		read_word(x, attribute);
		assert_int_equal(*x->at++, '=');
		assert_int_equal(*x->at++, '"');
		read_characters(x, "\"<");
		assert_int_equal(*x->at++, '"');
	}
	if (*x->at == '/')
		x->at++;
	else
		x->depth++;
	assert_int_equal(*x->at++, '>');
}

static void read_close_tag(struct xml *x)
{
	char tag[TAG_BYTES_MAX];
	read_word(x, tag);
	assert_true(x->depth > 0);
	assert_string_equal(tag, x->open[--x->depth]);
	assert_int_equal(*x->at++, '>');
}

/* Returns the number of elements. */
static unsigned well_formed(const char *text)
{
	static const char declaration[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
	assert_int_equal(strncmp(text, declaration, sizeof declaration - 1), 0);
	struct xml x = {.at = text + sizeof declaration - 1};
	do {
		assert_int_equal(*x.at++, '<');
		if (*x.at == '/') {
			x.at++;
			read_close_tag(&x);
		} else {
			read_open_tag(&x);
		}
		if (x.depth > 0)
			read_characters(&x, "<");
	} while (x.depth > 0);
	assert_string_equal(x.at, "\n");
	return x.elements;
}

/* --- */

static struct plot small(struct plot_line lines[3])
{
	static const double bytes[] = {1e6, 1e7, 5e7}, other[] = {2e5, 3e6}, auc[] = {0.9, 0.94, 0.955}, low[] = {0.88, 0.951};
	lines[0] = (struct plot_line){.x = bytes, .y = auc, .count = 3, .faint = true};
	lines[1] = (struct plot_line){.name = "fp32", .x = bytes, .y = auc, .count = 3};
	lines[2] = (struct plot_line){.name = "int8 & <top-k>", .x = other, .y = low, .count = 2, .style = 1};
	return (struct plot){.title = "a < b",
	                     .x_label = "bytes",
	                     .y_label = "auc",
	                     .x_unit = PLOT_BYTES,
	                     .x_log = true,
	                     .lines = lines,
	                     .lines_count = 3};
}

/* WEIR_GOLDEN_WRITE=1 rewrites the golden file. */
static void a_small_plot_is_the_golden_one(void **state)
{
	(void)state;
	static const char path[] = GOLDEN_DIR "/plot.svg";
	struct plot_line lines[3];
	const struct plot p = small(lines);
	char *text = plot_svg(&p), *golden = NULL;
	size_t bytes = 0;
	weir_error err = {0};
	if (getenv("WEIR_GOLDEN_WRITE"))
		assert_int_equal(disk_write_file(disk_system(), path, text, strlen(text), &err), WEIR_OK);
	assert_int_equal(disk_read_file(disk_system(), path, FILE_BYTES_MAX, &golden, &bytes, &err), WEIR_OK);
	assert_string_equal(text, golden);
	free(golden);
	free(text);
}

static void it_is_well_formed_and_has_all_there_is(void **state)
{
	(void)state;
	struct plot_line lines[3];
	const struct plot p = small(lines);
	char *text = plot_svg(&p);
	assert_true(well_formed(text) > 20);
	assert_int_equal(occurrences(text, "<polyline "), 3);
	assert_int_equal(occurrences(text, "<circle "), 5); /* the faint line has no points */
	assert_int_equal(occurrences(text, ">fp32</text>"), 1);
	assert_int_equal(occurrences(text, ">int8 &amp; &lt;top-k&gt;</text>"), 1);
	assert_int_equal(occurrences(text, "a &lt; b"), 2);
	static const char *const ticks[] = {">1.0 MB<", ">10.0 MB<", ">200 kB<", ">0.90<", ">0.94<"};
	for (unsigned i = 0; i < sizeof ticks / sizeof *ticks; i++)
		if (occurrences(text, ticks[i]) != 1)
			fail_msg("%s is there %u times in\n%s", ticks[i], occurrences(text, ticks[i]), text);
	free(text);
}

/* The vertical grid lines, one per tick of the x axis. */
static unsigned x_ticks(const double *x, uint32_t n, bool log)
{
	static const double y[] = {1, 2, 3};
	const struct plot_line line = {.x = x, .y = y, .count = n};
	const struct plot p = {.title = "", .x_label = "", .y_label = "", .x_log = log, .lines = &line, .lines_count = 1};
	char *text = plot_svg(&p);
	well_formed(text);
	const unsigned ticks = occurrences(text, "y1=\"40\"");
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf"));
	free(text);
	return ticks;
}

static void axes_have_a_few_ticks_whatever_the_points(void **state)
{
	(void)state;
	static const struct {
		double x[3];
		uint32_t count;
		bool log;
	} cases[] = {{{0, 7, 31}, 3, false},
	             {{1e-9, 2e-9, 3e-9}, 3, false},
	             {{-5, 0, 1e12}, 3, false},
	             {{3, 3, 3}, 3, false},
	             {{0, 0, 0}, 3, false},
	             {{0}, 0, false},
	             {{0}, 0, true},
	             {{5e7, 6e7, 8e7}, 3, true},
	             {{1, 1e6, 1e12}, 3, true},
	             {{3e6, 3e6, 3e6}, 3, true},
	             {{0, 1e3, 1e5}, 3, true},
	             {{-1, 0, 1}, 3, true},
	             {{NAN, INFINITY, 4}, 3, false}};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		const unsigned ticks = x_ticks(cases[i].x, cases[i].count, cases[i].log);
		if (ticks < 2 || ticks > 16)
			fail_msg("case %u has %u ticks", i, ticks);
	}
}

static void points_that_cannot_be_shown_are_left_out(void **state)
{
	(void)state;
	static const double x[] = {0, 1, 10, 100}, y[] = {1, NAN, 2, 3};
	const struct plot_line line = {.name = "l", .x = x, .y = y, .count = 4};
	const struct plot p = {.title = "\001", .x_label = "", .y_label = "", .x_log = true, .lines = &line, .lines_count = 1};
	char *text = plot_svg(&p);
	well_formed(text);
	assert_int_equal(occurrences(text, "<circle "), 2);
	free(text);
}

/* After the palette's last colour, lines are dashed: no two look alike. */
static void lines_can_be_told_apart(void **state)
{
	(void)state;
	enum { LINES = PLOT_COLOURS * PLOT_DASHES };
	static const double x[] = {1, 2}, y[] = {1, 2};
	struct plot_line lines[LINES];
	const char *strokes[LINES];
	for (uint32_t i = 0; i < LINES; i++)
		lines[i] = (struct plot_line){.name = "l", .x = x, .y = y, .count = 2, .style = i};
	const struct plot p = {.title = "", .x_label = "", .y_label = "", .lines = lines, .lines_count = LINES};
	char *text = plot_svg(&p);
	well_formed(text);
	/* the first path is the axes; the legend's paths follow */
	const char *at = strstr(text, "<path ");
	for (uint32_t i = 0; i < LINES; i++) {
		at = strstr(at + 1, "<path ");
		assert_non_null(at);
		at = strstr(at, "fill=");
		assert_non_null(at);
		strokes[i] = at;
		for (uint32_t j = 0; j < i; j++)
			assert_true(strncmp(strokes[j], at, strcspn(at, "/")) != 0);
	}
	free(text);
}

/* --- Colours: contrast as WCAG 2.1 defines it. */

static double channel(uint32_t c)
{
	const double x = (c & 0xff) / 255.0;
	return x <= 0.03928 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4);
}

static double luminance(uint32_t rgb)
{
	return 0.2126 * channel(rgb >> 16) + 0.7152 * channel(rgb >> 8) + 0.0722 * channel(rgb);
}

static double contrast(uint32_t a, uint32_t b)
{
	const double x = luminance(a), y = luminance(b);
	return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

static void colours_are_seen_on_light_and_on_dark(void **state)
{
	(void)state;
	enum { WHITE = 0xffffff, BLACK = 0, DARK = 0x0d1117 /* a common dark page */ };
	assert_true(fabs(contrast(WHITE, BLACK) - 21) < 1e-9);
	for (unsigned i = 0; i < PLOT_COLOURS; i++) {
		const uint32_t c = plot_colours[i];
		if (contrast(c, WHITE) < 3 || contrast(c, BLACK) < 3 || contrast(c, DARK) < 3)
			fail_msg("#%06x: %.2f to white, %.2f to black, %.2f to dark", c, contrast(c, WHITE), contrast(c, BLACK),
			         contrast(c, DARK));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_small_plot_is_the_golden_one),
	    cmocka_unit_test(it_is_well_formed_and_has_all_there_is),
	    cmocka_unit_test(axes_have_a_few_ticks_whatever_the_points),
	    cmocka_unit_test(points_that_cannot_be_shown_are_left_out),
	    cmocka_unit_test(lines_can_be_told_apart),
	    cmocka_unit_test(colours_are_seen_on_light_and_on_dark),
	};
	return cmocka_run_group_tests_name("cli_plot", tests, NULL, NULL);
}
