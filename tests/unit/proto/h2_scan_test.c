/* HTTP/2 frames that a server accepts and refuses, by kind and rate, for any cut. The busiest gRPC
 * client is always accepted. */
#include "proto/rpc/h2_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "tests/cmocka_check.h"

enum { END_HEADERS = 4, SECOND_NS = 1000000000 };

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const char *const names[H2_KINDS] = {
#define NAME(name, text, rate) text,
    H2_KIND_MAP(NAME)
#undef NAME
};
static const uint32_t rates[H2_KINDS] = {
#define RATE(name, text, rate) rate,
    H2_KIND_MAP(RATE)
#undef RATE
};

struct flow {
	struct h2_scan scan;
	int64_t now_ns;
	size_t cut; /* bytes per call */
	const char *why;
};

static void flow_begin(struct flow *f, size_t cut)
{
	*f = (struct flow){.now_ns = SECOND_NS, .cut = cut};
}

static bool flow_take(struct flow *f, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	for (size_t n; bytes > 0; at += n, bytes -= n) {
		n = bytes < f->cut ? bytes : f->cut;
		if (!h2_scan_take(&f->scan, at, n, f->now_ns, &f->why))
			return false;
	}
	return true;
}

static bool flow_frame(struct flow *f, uint8_t kind, uint8_t flags, uint32_t payload)
{
	uint8_t *b = calloc(1, H2_HEADER_BYTES + payload);
	assert_non_null(b);
	b[0] = (uint8_t)(payload >> 16);
	b[1] = (uint8_t)(payload >> 8);
	b[2] = (uint8_t)payload;
	b[3] = kind;
	b[4] = flags;
	b[8] = 1;
	const bool taken = flow_take(f, b, H2_HEADER_BYTES + payload);
	free(b);
	return taken;
}

/* Sends one frame of a kind. Includes an unknown kind of RFC 9113, and DATA that is almost
 * empty. */
static bool send_kind(struct flow *f, enum h2_kind kind)
{
	if (kind == H2_SMALL)
		return flow_frame(f, H2_DATA, 0, 0);
	return flow_frame(f, kind == H2_OTHER ? 0xfa : (uint8_t)kind, kind == H2_HEADERS ? END_HEADERS : 0,
	                  kind == H2_DATA ? H2_DATA_SMALL : 5);
}

static void a_kind_has_its_rate(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < H2_KINDS; kind++) {
		struct flow f;
		if (rates[kind] == UINT32_MAX)
			continue;
		flow_begin(&f, 7);
		assert_true(flow_take(&f, preface, H2_PREFACE_BYTES));
		for (uint32_t second = 0; second < 3; second++) /* the allowed rate is fine for any time */
			for (uint32_t i = 0; i < rates[kind]; i++) {
				f.now_ns += SECOND_NS / rates[kind];
				if (!send_kind(&f, kind))
					fail_msg("%u %s a second are cut: %s", rates[kind], names[kind], f.why);
			}
		uint32_t taken = 0; /* a burst is fine too */
		while (taken < 2 * rates[kind] + 200 && send_kind(&f, kind))
			taken++;
		if (taken >= 2 * rates[kind] + 200)
			fail_msg("%u %s at once are taken", taken, names[kind]);
		char expected[64];
		snprintf(expected, sizeof expected, "too many %s", names[kind]);
		assert_string_equal(f.why, expected);
	}
}

static void a_header_block_has_an_end(void **state)
{
	(void)state;
	struct flow f;
	for (size_t cut = 1; cut < 70000; cut = 3 * cut + 1) {
		flow_begin(&f, cut);
		assert_true(flow_take(&f, preface, H2_PREFACE_BYTES));
		uint32_t bytes = H2_HEADER_BYTES + 100;
		assert_true(flow_frame(&f, H2_HEADERS, 0, 100));
		while (flow_frame(&f, H2_CONTINUATION, 0, 1000))
			bytes += H2_HEADER_BYTES + 1000;
		assert_in_range(bytes, WEIR_HEADER_BLOCK_BYTES_MAX - 2000, WEIR_HEADER_BLOCK_BYTES_MAX);
		assert_string_equal(f.why, "a header block is too long");
		assert_int_equal(f.scan.blocks, 0);

		flow_begin(&f, cut);
		assert_true(flow_take(&f, preface, H2_PREFACE_BYTES));
		for (uint32_t i = 0; i < 100; i++) /* each kind has its own count */
			assert_true(flow_frame(&f, H2_HEADERS, 0, 2000) && flow_frame(&f, H2_CONTINUATION, END_HEADERS, 2000));
		assert_int_equal(f.scan.blocks, 100);
		assert_true(flow_frame(&f, H2_HEADERS, 0, 10));
		assert_false(flow_frame(&f, H2_PING, 0, 8));
		assert_string_equal(f.why, "a header block is broken off");
	}
}

/* A payload that looks like a header does not end the block early. */
static void no_payload_is_taken_for_a_header(void **state)
{
	(void)state;
	struct flow f;
	uint8_t frame[H2_HEADER_BYTES + 1000] = {0, 1000 >> 8, 1000 & 0xff, H2_DATA};
	for (size_t i = 0; i < 1000; i++)
		/* a scanner that loses its position counts these as headers */
		frame[H2_HEADER_BYTES + i] = H2_SETTINGS;
	for (size_t cut = 1; cut <= sizeof frame; cut++) {
		flow_begin(&f, cut);
		assert_true(flow_take(&f, preface, H2_PREFACE_BYTES));
		for (uint32_t i = 0; i < 20; i++)
			assert_true(flow_take(&f, frame, sizeof frame));
		assert_true(f.scan.payload == 0 && f.scan.header == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_kind_has_its_rate),
	    cmocka_unit_test(a_header_block_has_an_end),
	    cmocka_unit_test(no_payload_is_taken_for_a_header),
	};
	return cmocka_run_group_tests_name("h2_scan", tests, NULL, NULL);
}
