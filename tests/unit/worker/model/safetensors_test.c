/* Golden bytes, a round trip, and every kind of damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "worker/model/safetensors/safetensors.h"

static char folder[FOLDER_BYTES], path[96];

static int make_folder(void **state)
{
	(void)state;
	folder_create(folder);
	snprintf(path, sizeof path, "%s/x.safetensors", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return folder_delete(folder);
}

static void write_file(const char *header, uint64_t length, const void *data, size_t bytes)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	fwrite(&length, 8, 1, f);
	fputs(header, f);
	fwrite(data, 1, bytes, f);
	fclose(f);
}

static void golden_bytes(void **state)
{
	(void)state;
	const float x[2] = {1.0f, -2.0f};
	const uint64_t k[1] = {0x0102030405060708ull};
	const struct safetensor tensors[] = {
	    {.name = "x", .type = SAFETENSOR_F32, .dims = 2, .shape = {1, 2}, .data = x},
	    {.name = "k", .type = SAFETENSOR_U64, .dims = 1, .shape = {1}, .data = k},
	};
	weir_error err = {0};
	assert_int_equal(safetensors_write(disk_system(), path, tensors, 2, NULL, &err), WEIR_OK);
	/* Wider elements come first, in any order of the input. */
	static const char header[] = "{\"k\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[0,8]},"
	                             "\"x\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]}}";
	char *file;
	size_t bytes;
	assert_int_equal(disk_read_file(disk_system(), path, 4096, &file, &bytes, &err), WEIR_OK);
	uint64_t padded = (sizeof header - 1 + 7) / 8 * 8;
	assert_int_equal(bytes, 8 + padded + 16);
	assert_memory_equal(file, &padded, 8);
	assert_memory_equal(file + 8, header, sizeof header - 1);
	assert_memory_equal(file + 8 + padded, "\x08\x07\x06\x05\x04\x03\x02\x01\x00\x00\x80\x3f\x00\x00\x00\xc0", 16);
	free(file);
}

static void round_trip(void **state)
{
	(void)state;
	const float x[6] = {0, 1, 2, 3, 4, 5};
	const struct safetensor tensors[] = {
	    {.name = "a.weight", .type = SAFETENSOR_F32, .dims = 2, .shape = {2, 3}, .data = x},
	    {.name = "none", .type = SAFETENSOR_U64, .dims = 1, .shape = {0}, .data = NULL},
	};
	const char *const metadata[] = {"fields", "26", NULL};
	weir_error err = {0};
	struct safetensors *s = NULL;
	assert_int_equal(safetensors_write(disk_system(), path, tensors, 2, metadata, &err), WEIR_OK);
	assert_int_equal(safetensors_open(&s, path, &err), WEIR_OK);
	const struct safetensor *a = safetensors_find(s, "a.weight");
	assert_non_null(a);
	assert_int_equal(a->dims, 2);
	assert_int_equal(safetensor_elements(a), 6);
	assert_memory_equal(a->data, x, sizeof x);
	assert_int_equal(safetensor_elements(safetensors_find(s, "none")), 0);
	assert_null(safetensors_find(s, "b"));
	assert_string_equal(safetensors_metadata(s, "fields"), "26");
	assert_string_equal(safetensors_metadata(s, "other"), "");
	safetensors_close(s);
}

static void expect_refused(const char *header, uint64_t length, size_t bytes, weir_status status)
{
	static const char data[64];
	weir_error err = {0};
	struct safetensors *s = NULL;
	write_file(header, length, data, bytes);
	weir_status got = safetensors_open(&s, path, &err);
	if (got != status || s != NULL || strstr(err.text, path) == NULL)
		fail_msg("%s: got %s (%s), expected %s", header, weir_status_name(got), err.text, weir_status_name(status));
}

/* The same for a correctly padded header. */
static void expect_entry_refused(const char *header, size_t bytes, weir_status status)
{
	char padded[256];
	int length = snprintf(padded, sizeof padded, "%s", header);
	while (length % 8 != 0)
		padded[length++] = ' ';
	padded[length] = '\0';
	expect_refused(padded, (uint64_t)length, bytes, status);
}

static void broken_files_are_refused(void **state)
{
	(void)state;
#define ENTRY(dtype, shape, begin, end) \
	"{\"x\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}}"
	expect_refused("", 0, 0, WEIR_E_CORRUPT);
	expect_refused("{}", 1u << 20, 0, WEIR_E_CORRUPT);
	expect_refused("{}", UINT64_MAX, 0, WEIR_E_CORRUPT);
	expect_refused("[[[[[[]]", 8, 0, WEIR_E_CORRUPT);
	expect_refused("[      ]", 8, 0, WEIR_E_CORRUPT);
	expect_entry_refused(ENTRY("F32", "[2]", "0", "8"), 4, WEIR_E_CORRUPT); /* beyond the file */
	/* does not match the shape */
	expect_entry_refused(ENTRY("F32", "[3]", "0", "8"), 8, WEIR_E_CORRUPT);
	expect_entry_refused(ENTRY("F32", "[2]", "9", "1"), 16, WEIR_E_CORRUPT); /* end before begin */
	expect_entry_refused(ENTRY("F32", "[-2]", "0", "8"), 8, WEIR_E_CORRUPT); /* negative */
	expect_entry_refused(ENTRY("I16", "[2]", "0", "4"), 4, WEIR_E_UNSUPPORTED);
	expect_entry_refused(ENTRY("F32", "[1]", "4", "8"), 8, WEIR_E_CORRUPT); /* a gap before it */
	expect_entry_refused(ENTRY("F32", "[1]", "0", "4"), 8, WEIR_E_CORRUPT); /* a gap after it */
	/* overflow */
	expect_entry_refused(ENTRY("F32", "[4294967296,4294967296,4]", "0", "0"), 8, WEIR_E_CORRUPT);
	expect_entry_refused("{\"x\":[1,2,3]}", 8, WEIR_E_CORRUPT);
	char entry[256];
	snprintf(entry, sizeof entry, "{\"%0128d\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 0);
	expect_entry_refused(entry, 4, WEIR_E_LIMIT);
#define TWO(begin, end)                                                                                                        \
	"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" \
	"[" begin "," end "]}}"
	expect_entry_refused(TWO("4", "12"), 12, WEIR_E_CORRUPT); /* two tensors overlap */
	expect_entry_refused(TWO("0", "8"), 8, WEIR_E_CORRUPT);
	expect_entry_refused(TWO("12", "20"), 20, WEIR_E_CORRUPT);
}

/* Files of other programs: half floats, unpadded headers, a tensor at an odd offset. */
static void numbers_of_any_type_at_any_place(void **state)
{
	(void)state;
	static const uint8_t data[] = {0x80, 0x3f, 0x00, 0xc0, 0x00, 0x38, 0x00, 0x3c, 0xff, 0xff, 0x00, 0x00, 0x20, 0x41};
	const char *header = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
	                     "\"h\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[4,10]},"
	                     "\"f\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[10,14]}} ";
	weir_error err = {0};
	struct safetensors *s = NULL;
	float x[3];
	write_file(header, strlen(header), data, sizeof data);
	CHECK_OK(safetensors_open(&s, path, &err), err);
	assert_int_equal(safetensors_count(s), 3);
	assert_string_equal(safetensors_at(s, 1)->name, "f");
	safetensor_floats(safetensors_find(s, "b"), 0, 2, x);
	assert_true(x[0] == 1 && x[1] == -2);
	safetensor_floats(safetensors_find(s, "h"), 0, 3, x);
	assert_true(x[0] == 0.5f && x[1] == 1 && x[2] != x[2]);
	safetensor_floats(safetensors_find(s, "h"), 1, 1, x);
	assert_true(x[0] == 1);
	safetensor_floats(safetensors_find(s, "f"), 0, 1, x);
	assert_true(x[0] == 10);
	safetensors_close(s);
}

/* GPT-2's masks are bytes in many files. A reader skips them; a writer puts them behind all wider
 * tensors. */
static void masks_are_read_and_written(void **state)
{
	(void)state;
	static const uint8_t mask[] = {1, 0, 1}, bits[] = {0, 1};
	const float x[1] = {5};
	const struct safetensor tensors[] = {{.name = "mask", .type = SAFETENSOR_BOOL, .dims = 1, .shape = {3}, .data = mask},
	                                     {.name = "bits", .type = SAFETENSOR_U8, .dims = 2, .shape = {1, 2}, .data = bits},
	                                     {.name = "x", .type = SAFETENSOR_F32, .dims = 1, .shape = {1}, .data = x}};
	weir_error err = {0};
	struct safetensors *s = NULL;
	CHECK_OK(safetensors_write(disk_system(), path, tensors, 3, NULL, &err), err);
	CHECK_OK(safetensors_open(&s, path, &err), err);
	for (uint32_t i = 0; i < 3; i++) {
		const struct safetensor *t = safetensors_find(s, tensors[i].name);
		assert_non_null(t);
		assert_int_equal(t->type, tensors[i].type);
		assert_int_equal(safetensor_is_real(t->type), i == 2);
		assert_true(safetensor_is_aligned(t));
		assert_memory_equal(t->data, tensors[i].data, safetensor_bytes(t));
	}
	safetensors_close(s);
}

/* --- Several files */

static void write_part(const char *name, const char *tensor, float value, weir_status expected)
{
	char part[128];
	weir_error err = {0};
	snprintf(part, sizeof part, "%s/%s", folder, name);
	struct safetensor t = {.type = SAFETENSOR_F32, .dims = 1, .shape = {1}, .data = &value};
	snprintf(t.name, sizeof t.name, "%s", tensor);
	assert_int_equal(safetensors_write(disk_system(), part, &t, 1, NULL, &err), expected);
}

static weir_status open_index(const char *text, struct safetensors **out, weir_error *err)
{
	char index[128];
	snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
	*err = (weir_error){0};
	assert_int_equal(disk_write_file(disk_system(), index, text, strlen(text), err), WEIR_OK);
	const weir_status status = safetensors_open(out, index, err);
	unlink(index);
	return status;
}

static void an_index_is_its_files(void **state)
{
	(void)state;
	weir_error err = {0};
	struct safetensors *s = NULL;
	float x;
	write_part("1.safetensors", "model.b", 1, WEIR_OK);
	write_part("2.safetensors", "model.a", 2, WEIR_OK);
	CHECK_OK(open_index("{\"weight_map\":{\"model.a\":\"2.safetensors\",\"model.b\":\"1.safetensors\"}}", &s, &err), err);
	assert_int_equal(safetensors_count(s), 2);
	safetensor_floats(safetensors_find(s, "model.a"), 0, 1, &x);
	assert_true(x == 2);
	safetensor_floats(safetensors_find(s, "model.b"), 0, 1, &x);
	assert_true(x == 1);
	safetensors_close(s);
	const struct {
		const char *text, *told;
		weir_status status;
	} bad[] = {
	    {"{\"weight_map\":{\"a\":\"../1.safetensors\"}}", "beside it", WEIR_E_CORRUPT},
	    {"{\"weight_map\":{\"a\":7}}", "beside it", WEIR_E_CORRUPT},
	    {"{\"weight_map\":{\"a\":\"3.safetensors\"}}", "3.safetensors", WEIR_E_NOT_FOUND},
	    {"{\"weight_map\":{}}", "no weight_map", WEIR_E_CORRUPT},
	    {"[1, 2]", "not a JSON object", WEIR_E_CORRUPT},
	    {"{", "not a JSON object", WEIR_E_CORRUPT},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(open_index(bad[i].text, &s, &err), bad[i].status);
		if (strstr(err.text, bad[i].told) == NULL)
			fail_msg("%s: %s", bad[i].text, err.text);
	}
	write_part("2.safetensors", "model.b", 2, WEIR_OK);
	assert_int_equal(open_index("{\"weight_map\":{\"model.a\":\"2.safetensors\",\"model.b\":\"1.safetensors\"}}", &s, &err),
	                 WEIR_E_CORRUPT);
	assert_non_null(strstr(err.text, "two of its files have a tensor 'model.b'"));
	for (int i = 1; i <= 2; i++) {
		char part[128];
		snprintf(part, sizeof part, "%s/%d.safetensors", folder, i);
		unlink(part);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden_bytes),
	    cmocka_unit_test(round_trip),
	    cmocka_unit_test(broken_files_are_refused),
	    cmocka_unit_test(numbers_of_any_type_at_any_place),
	    cmocka_unit_test(masks_are_read_and_written),
	    cmocka_unit_test(an_index_is_its_files),
	};
	return cmocka_run_group_tests_name("safetensors", tests, make_folder, remove_folder);
}
