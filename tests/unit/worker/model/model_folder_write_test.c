/* Written model folders: read back bit for bit; files beside the weights; existing files stay. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/prng.h"
#include "common/web/json.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "worker/model/model_folder.h"
#include "worker/model/new_folder.h"

static char work[FOLDER_BYTES], out[96];

static int make_folder(void **state)
{
	(void)state;
	folder_create(work);
	snprintf(out, sizeof out, "%s/out", work);
	return 0;
}

/* The number of entries in a folder; `remove` deletes them recursively. */
static uint32_t entries_of(const char *folder, bool remove)
{
	uint32_t n = 0;
	DIR *dir = opendir(folder);
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		char path[512];
		if (e->d_name[0] == '.')
			continue;
		n++;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (remove && unlink(path) != 0) {
			entries_of(path, true);
			rmdir(path);
		}
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

static int empty_folder(void **state)
{
	(void)state;
	entries_of(work, true);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return folder_delete(work);
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[512];
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s", folder, name);
	CHECK_OK(disk_write_file(disk_system(), path, text, strlen(text), &err), err);
}

static const char *get(const char *folder, const char *name)
{
	static char text[4096];
	char path[512], *read = NULL;
	size_t bytes = 0;
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (access(path, F_OK) != 0)
		return "";
	CHECK_OK(disk_read_file(disk_system(), path, sizeof text - 1, &read, &bytes, &err), err);
	memcpy(text, read, bytes + 1);
	free(read);
	return text;
}

/* --- config.json */

static struct transformer_config random_config(struct prng *r)
{
	struct transformer_config c = {.family = prng_below(r, 2) == 0 ? TRANSFORMER_GPT2 : TRANSFORMER_LLAMA};
	const bool gpt2 = c.family == TRANSFORMER_GPT2;
	c.kv_heads = 1 + (uint32_t)prng_below(r, 4);
	c.heads = gpt2 ? c.kv_heads : c.kv_heads * (1 + (uint32_t)prng_below(r, 4));
	c.head_dim = 2 * (1 + (uint32_t)prng_below(r, 64));
	c.width = gpt2 ? c.heads * c.head_dim : 1 + (uint32_t)prng_below(r, 999);
	c.hidden = 1 + (uint32_t)prng_below(r, 9999);
	c.vocabulary = 1 + (uint32_t)prng_below(r, 99999);
	c.context = 1 + (uint32_t)prng_below(r, 9999);
	c.layers = 1 + (uint32_t)prng_below(r, 9);
	c.norm_eps = (float)(1e-7 + prng_unit(r) * 1e-4);
	c.init_std = (float)(1e-3 + prng_unit(r));
	c.tied_head = prng_below(r, 2) == 0;
	if (!gpt2) {
		c.attention_bias = prng_below(r, 2) == 0;
		c.mlp_bias = prng_below(r, 2) == 0;
		c.rope =
		    (struct rope_config){.theta = (double)(float)(10 + 1e6 * prng_unit(r)), .kind = (enum rope_kind)prng_below(r, 3)};
		if (c.rope.kind != ROPE_PLAIN)
			c.rope.factor = (double)(1 + prng_below(r, 64)) / 4 + 1;
		if (c.rope.kind == ROPE_LLAMA3) {
			c.rope.low_factor = 1;
			c.rope.high_factor = (double)(2 + prng_below(r, 9));
			c.rope.original_context = 1 + (uint32_t)prng_below(r, 99999);
		}
	}
	transformer_config_default(&c);
	return c;
}

/* theta is used as fp32 (rope_frequencies). */
static bool same_rope(const struct rope_config *a, const struct rope_config *b)
{
	const float x[] = {(float)a->theta, (float)a->factor, (float)a->low_factor, (float)a->high_factor},
	            y[] = {(float)b->theta, (float)b->factor, (float)b->low_factor, (float)b->high_factor};
	return memcmp(x, y, sizeof x) == 0 && a->kind == b->kind && a->original_context == b->original_context;
}

static void configurations_come_back(void **state)
{
	(void)state;
	struct prng r;
	prng_seed(&r, 20);
	for (int i = 0; i < 200; i++) {
		const struct transformer_config c = random_config(&r);
		struct transformer_config got;
		weir_error err = {0};
		char path[128];
		snprintf(path, sizeof path, "%s/config.json", work);
		struct json *j = json_create();
		transformer_config_put(&c, j);
		CHECK_OK(json_write_file(j, path, &err), err);
		json_destroy(j);
		CHECK_OK(transformer_config_read(path, &got, &err), err);
		if (got.family != c.family || got.vocabulary != c.vocabulary || got.context != c.context || got.layers != c.layers ||
		    got.heads != c.heads || got.kv_heads != c.kv_heads || got.head_dim != c.head_dim || got.width != c.width ||
		    got.hidden != c.hidden || got.tied_head != c.tied_head || got.attention_bias != c.attention_bias ||
		    got.mlp_bias != c.mlp_bias || memcmp(&got.norm_eps, &c.norm_eps, sizeof c.norm_eps) != 0 ||
		    memcmp(&got.init_std, &c.init_std, sizeof c.init_std) != 0 || !same_rope(&got.rope, &c.rope))
			fail_msg("configuration %d is another one when it is read: %s", i, get(work, "config.json"));
	}
}

/* --- Weights */

enum { ELEMENTS = 2 * 3 + 2 + 5 * 40 };
static float weights[ELEMENTS];

static struct layout make_layout(void)
{
	struct layout l = {0};
	struct prng r;
	prng_seed(&r, 3);
	layout_add(&l, 2, 3, WEIR_INIT_ZERO, 0, "transformer.wte.weight");
	layout_add(&l, 2, 0, WEIR_INIT_ZERO, 0, "transformer.ln_f.bias");
	layout_add(&l, 5, 40, WEIR_INIT_ZERO, 0, "transformer.wpe.weight");
	for (int i = 0; i < ELEMENTS; i++)
		weights[i] = prng_normal(&r);
	return l;
}

static const struct transformer_config config = {.family = TRANSFORMER_GPT2,
                                                 .vocabulary = 2,
                                                 .context = 5,
                                                 .layers = 1,
                                                 .heads = 1,
                                                 .kv_heads = 1,
                                                 .head_dim = 3,
                                                 .width = 3,
                                                 .hidden = 12,
                                                 .norm_eps = 1e-5f,
                                                 .init_std = 0.02f};

static struct model_folder folder_of(enum safetensor_type type)
{
	return (struct model_folder){.path = out, .type = type, .file_bytes = MODEL_FILE_BYTES, .bos = UINT32_MAX, .eos = 7};
}

static void expect_weights(const float *want)
{
	const struct layout layout = make_layout();
	struct model_weights *w = NULL;
	float got[ELEMENTS];
	weir_error err = {0};
	CHECK_OK(model_folder_open(&w, out, &layout, &err), err);
	model_folder_read(w, 0, ELEMENTS, got);
	assert_memory_equal(got, want, sizeof got);
	model_folder_close(w);
}

static void weights_come_back(void **state)
{
	(void)state;
	static const char *const types[] = {
	    [SAFETENSOR_F32] = "float32", [SAFETENSOR_BF16] = "bfloat16", [SAFETENSOR_F16] = "float16"};
	const struct layout layout = make_layout();
	for (enum safetensor_type type = SAFETENSOR_F32; type <= SAFETENSOR_F16; type++) {
		if (!safetensor_is_real(type))
			continue;
		struct model_folder f = folder_of(type);
		uint8_t rounded[sizeof weights];
		float want[ELEMENTS];
		weir_error err = {0};
		f.replace = true;
		CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
		safetensor_round(type, weights, ELEMENTS, rounded);
		safetensor_floats(&(struct safetensor){.type = type, .data = rounded}, 0, ELEMENTS, want);
		expect_weights(want);
		CHECK_CONTAINS(get(out, "config.json"), types[type]);
		CHECK_CONTAINS(get(out, "config.json"), "\"eos_token_id\": 7");
		CHECK_CONTAINS(get(out, "config.json"), "\"bos_token_id\": null");
		struct transformer_config read;
		CHECK_OK(model_folder_config(out, &read, &err), err);
		assert_true(read.hidden == 12 && read.context == 5 && !read.tied_head);
	}
	assert_int_equal(entries_of(out, false), 2);
	/* no replaced file and no temporary name is left */
	assert_int_equal(entries_of(work, false), 1);
}

static void large_models_are_several_files(void **state)
{
	(void)state;
	const struct layout layout = make_layout();
	struct model_folder f = folder_of(SAFETENSOR_F32);
	weir_error err = {0};
	f.file_bytes = 32; /* two small tensors, and one beyond the limit */
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	expect_weights(weights);
	assert_int_equal(entries_of(out, false), 4);
	CHECK_CONTAINS(get(out, "model.safetensors.index.json"), "\"transformer.ln_f.bias\": \"model-00001-of-00002.safetensors\"");
	CHECK_CONTAINS(get(out, "model.safetensors.index.json"), "\"transformer.wpe.weight\": \"model-00002-of-00002.safetensors\"");
	CHECK_CONTAINS(get(out, "model.safetensors.index.json"), "\"total_size\": 832");
	f.file_bytes = 31;
	f.replace = true;
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	expect_weights(weights);
	assert_int_equal(entries_of(out, false), 5);
	f.file_bytes = MODEL_FILE_BYTES; /* the old index is removed */
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	expect_weights(weights);
	assert_int_equal(entries_of(out, false), 2);
}

static void fp16_must_reach(void **state)
{
	(void)state;
	const struct layout layout = make_layout();
	struct model_folder f = folder_of(SAFETENSOR_F16);
	weir_error err = {0};
	weights[7] = -65519; /* rounds to -65504 */
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	entries_of(work, true);
	weights[7] = -65520;
	assert_int_equal(model_folder_write(&f, &config, &layout, weights, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "'transformer.ln_f.bias' has -65520, which F16 does not reach");
	assert_int_equal(entries_of(work, false), 0); /* no partial output is left */
	f.type = SAFETENSOR_BF16;
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
}

/* --- Files beside the weights */

static void a_base_keeps_its_words(void **state)
{
	(void)state;
	const struct layout layout = make_layout();
	struct model_folder f = folder_of(SAFETENSOR_BF16);
	char base[96];
	weir_error err = {0};
	snprintf(base, sizeof base, "%s/base", work);
	mkdir(base, 0700);
	put(base, "config.json",
	    "{\"model_type\": \"gpt2\", \"eos_token_id\": [3, 5], \"dtype\": \"float32\", \"torch_dtype\": \"float32\"}");
	put(base, "generation_config.json", "{\"top_p\": 0.5}");
	put(base, "tokenizer.json", "{}");
	put(base, "merges.txt", "a b");
	put(base, "model.safetensors.index.json", "not to be copied");
	put(base, "README.md", "nor this");
	f.base = base;
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	assert_int_equal(entries_of(out, false), 3);
	CHECK_CONTAINS(get(out, "config.json"), "\"eos_token_id\": [");
	CHECK_CONTAINS(get(out, "config.json"), "\"dtype\": \"bfloat16\"");
	CHECK_CONTAINS(get(out, "config.json"), "\"torch_dtype\": \"bfloat16\"");
	assert_null(strstr(get(out, "config.json"), "float32"));
	assert_string_equal(get(out, "generation_config.json"), "{\"top_p\": 0.5}");
	f.tokenizer = base;
	f.replace = true;
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	assert_int_equal(entries_of(out, false), 5);
	assert_string_equal(get(out, "merges.txt"), "a b");
}

/* The folder of a tokenizer.json is copied; a tokenizer with another file name is copied alone. */
static void tokenizers_are_copied(void **state)
{
	(void)state;
	const struct layout layout = make_layout();
	struct model_folder f = folder_of(SAFETENSOR_F32);
	char place[96], file[128];
	weir_error err = {0};
	snprintf(place, sizeof place, "%s/words", work);
	mkdir(place, 0700);
	put(place, "tokenizer.json", "{}");
	put(place, "tokenizer_config.json", "{\"a\": 1}");
	put(place, "other.json", "{\"b\": 1}");
	f.tokenizer = file;
	f.replace = true;
	snprintf(file, sizeof file, "%s/tokenizer.json", place);
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	assert_int_equal(entries_of(out, false), 4);
	assert_string_equal(get(out, "tokenizer_config.json"), "{\"a\": 1}");
	snprintf(file, sizeof file, "%s/other.json", place);
	CHECK_OK(model_folder_write(&f, &config, &layout, weights, &err), err);
	assert_int_equal(entries_of(out, false), 3);
	assert_string_equal(get(out, "tokenizer.json"), "{\"b\": 1}");
	snprintf(file, sizeof file, "%s/none", place);
	assert_int_equal(model_folder_write(&f, &config, &layout, weights, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "words/none");
	assert_string_equal(get(out, "tokenizer.json"), "{\"b\": 1}"); /* the folder is unchanged */
	assert_int_equal(entries_of(work, false), 2);
}

/* --- Existing outputs */

static weir_status try_folder(bool replace, weir_error *err)
{
	struct new_folder f;
	const weir_status s = new_folder_begin(&f, out, replace, err);
	if (s == WEIR_OK)
		put(f.temporary, "config.json", "new");
	return s == WEIR_OK ? new_folder_end(&f, WEIR_OK, err) : s;
}

static void files_in_the_way_stay(void **state)
{
	(void)state;
	weir_error err = {0};
	put(work, "out", "a file");
	assert_int_equal(try_folder(true, &err), WEIR_E_EXISTS);
	CHECK_CONTAINS(err.text, "is no folder");
	unlink(out);
	mkdir(out, 0700);
	CHECK_OK(try_folder(false, &err), err); /* an empty folder is accepted */
	assert_string_equal(get(out, "config.json"), "new");
	put(out, "config.json", "old");
	assert_int_equal(try_folder(false, &err), WEIR_E_EXISTS);
	CHECK_CONTAINS(err.text, "give --replace");
	put(out, "thesis.tex", "mine");
	assert_int_equal(try_folder(true, &err), WEIR_E_EXISTS);
	CHECK_CONTAINS(err.text, "has thesis.tex in it, which is no file of a model");
	assert_string_equal(get(out, "config.json"), "old");
	char path[128];
	snprintf(path, sizeof path, "%s/thesis.tex", out);
	unlink(path);
	snprintf(path, sizeof path, "%s/more.json", out);
	mkdir(path, 0700);
	assert_int_equal(try_folder(true, &err), WEIR_E_EXISTS);
	rmdir(path);
	CHECK_OK(try_folder(true, &err), err);
	assert_string_equal(get(out, "config.json"), "new");
	assert_int_equal(entries_of(work, false), 1);
}

static void a_link_stays_and_its_folder_is_written(void **state)
{
	(void)state;
	struct new_folder f;
	struct stat st;
	weir_error err = {0};
	char link[128], path[128];
	snprintf(link, sizeof link, "%s/link", work);
	assert_int_equal(symlink("deep/model/", link), 0);
	CHECK_OK(new_folder_begin(&f, link, false, &err), err);
	put(f.temporary, "config.json", "x");
	CHECK_OK(new_folder_end(&f, WEIR_OK, &err), err);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_string_equal(get(link, "config.json"), "x");
	const mode_t mask = umask(0);
	umask(mask);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", work, i ? "deep/model" : "deep");
		assert_int_equal(stat(path, &st), 0);
		/* readable by the model's users */
		assert_int_equal(st.st_mode & 0777, (i ? 0777 : 0755) & ~mask);
	}
	assert_int_equal(new_folder_begin(&f, "-", false, &err), WEIR_E_INVALID);
}

static void a_failed_write_leaves_nothing(void **state)
{
	(void)state;
	struct new_folder f;
	weir_error err = {0};
	char path[128];
	snprintf(path, sizeof path, "%s/a/b//", out); /* creates parents and ignores trailing slashes */
	CHECK_OK(new_folder_begin(&f, path, false, &err), err);
	put(f.temporary, "config.json", "x");
	assert_int_equal(new_folder_end(&f, weir_fail(&err, WEIR_E_NO_SPACE, "full"), &err), WEIR_E_NO_SPACE);
	assert_string_equal(err.text, "full");
	assert_int_equal(access(f.temporary, F_OK), -1);
	assert_int_equal(access(f.path, F_OK), -1);
	CHECK_OK(new_folder_begin(&f, path, false, &err), err);
	put(f.temporary, "config.json", "x");
	CHECK_OK(new_folder_end(&f, WEIR_OK, &err), err);
	assert_string_equal(get(f.path, "config.json"), "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(configurations_come_back, empty_folder),
	    cmocka_unit_test_teardown(weights_come_back, empty_folder),
	    cmocka_unit_test_teardown(large_models_are_several_files, empty_folder),
	    cmocka_unit_test_teardown(fp16_must_reach, empty_folder),
	    cmocka_unit_test_teardown(a_base_keeps_its_words, empty_folder),
	    cmocka_unit_test_teardown(tokenizers_are_copied, empty_folder),
	    cmocka_unit_test_teardown(files_in_the_way_stay, empty_folder),
	    cmocka_unit_test_teardown(a_link_stays_and_its_folder_is_written, empty_folder),
	    cmocka_unit_test_teardown(a_failed_write_leaves_nothing, empty_folder),
	};
	return cmocka_run_group_tests_name("model_folder_write", tests, make_folder, remove_folder);
}
