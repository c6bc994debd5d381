/* A damaged folder of a model or of adapters: refused with a sentence, or a model whose weights can
 * all be read.
 *
 * Input: u8 (bit 0: has an index; bit 1: adapters of the first projections; bit 2: a folder of
 * adapters, where bit 0 means a Llama), u16 bytes of config.json or adapter_config.json, u16 bytes
 * of the index (both little-endian), the two, then the bytes of the file of weights, "w". */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/model/adapter_folder.h"
#include "worker/model/model_folder.h"
#include "worker/model/transformer.h"

enum { HEADER = 5, HAS_INDEX = 1, OF_LLAMA = 1, ADAPTERS = 2, PEFT = 4 };
#define ELEMENTS_MAX (1u << 20) /* maximum size of a model whose weights are read */

static void write_file(const char *path, const uint8_t *data, size_t size)
{
	FILE *f = fopen(path, "w");
	const bool wrote = f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0;
	assert(wrote);
	(void)wrote;
}

static void read_weights(const char *folder, const struct layout *layout, bool peft)
{
	struct model_weights *w;
	weir_error err = {0};
	if ((peft ? adapter_folder_open : model_folder_open)(&w, folder, layout, &err) != WEIR_OK) {
		assert(err.text[0]);
		return;
	}
	if (model_folder_check_finite(w, folder, &err) != WEIR_OK)
		assert(err.text[0]);
	if (layout->elements <= ELEMENTS_MAX) {
		float *all = malloc(layout->elements * sizeof *all);
		assert(all);
		model_folder_read(w, 0, layout->elements, all);
		free(all);
	}
	model_folder_close(w);
}

/* The smallest model of a family that takes adapters. */
static struct transformer_config base_of(bool llama)
{
	struct transformer_config c = {.family = llama ? TRANSFORMER_LLAMA : TRANSFORMER_GPT2,
	                               .vocabulary = 3,
	                               .context = 2,
	                               .layers = 1,
	                               .heads = 1,
	                               .width = 2,
	                               .hidden = 3};
	transformer_config_default(&c);
	return c;
}

static void read_model(const char *folder, const struct transformer_config *config, const struct transformer_options *options,
                       bool peft)
{
	static struct layout trained;
	struct transformer *t;
	weir_error err = {0};
	trained.count = 0;
	trained.elements = 0;
	if (transformer_create(&t, NULL, config, options, &trained, &err) != WEIR_OK) {
		assert(err.text[0]);
		return;
	}
	read_weights(folder, peft ? &trained : transformer_weights(t), peft);
	transformer_destroy(t);
}

static void read_adapters(const char *folder, bool llama)
{
	const struct transformer_config base = base_of(llama);
	struct transformer_options options = {.bare = true};
	weir_error err = {0};
	if (adapter_folder_read(folder, &options.lora, &err) == WEIR_OK)
		read_model(folder, &base, &options, true);
	else
		assert(err.text[0]);
}

static void read_folder(const char *folder, bool adapters)
{
	struct transformer_config config;
	struct transformer_options options = {.bare = true};
	weir_error err = {0};
	if (model_folder_config(folder, &config, &err) != WEIR_OK) {
		assert(err.text[0]);
		return;
	}
	if (adapters) {
		options.lora.rank = 2;
		options.lora.alpha = 4;
		options.lora.targets[config.family == TRANSFORMER_GPT2 ? LORA_c_attn : LORA_q_proj] = true;
	}
	read_model(folder, &config, &options, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char folder[32], index[64];
	char config[64], weights[64];
	if (size < HEADER)
		return 0;
	if (folder[0] == '\0') {
		snprintf(folder, sizeof folder, "/dev/shm/weir-fuzz-%d", (int)getpid());
		snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
	}
	const size_t rest = size - HEADER, asked = data[1] | (size_t)data[2] << 8, config_bytes = asked < rest ? asked : rest;
	const size_t behind = rest - config_bytes, more = data[3] | (size_t)data[4] << 8, index_bytes = more < behind ? more : behind;
	const uint8_t *at = data + HEADER;
	const bool peft = data[0] & PEFT, indexed = !peft && data[0] & HAS_INDEX;
	mkdir(folder, 0700);
	snprintf(config, sizeof config, "%s/%s", folder, peft ? "adapter_config.json" : "config.json");
	snprintf(weights, sizeof weights, "%s/%s", folder, indexed ? "w" : peft ? "adapter_model.safetensors" : "model.safetensors");
	write_file(config, at, config_bytes);
	if (indexed)
		write_file(index, at + config_bytes, index_bytes);
	write_file(weights, at + config_bytes + index_bytes, behind - index_bytes);
	if (peft)
		read_adapters(folder, data[0] & OF_LLAMA);
	else
		read_folder(folder, data[0] & ADAPTERS);
	unlink(config);
	unlink(index);
	unlink(weights);
	rmdir(folder);
	return 0;
}

/* --- Seeds: the smallest models, by their layouts */

static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":3,\"n_positions\":2,\"n_layer\":1,\"n_head\":1,\"n_embd\":2}",
    ("{\"model_type\":\"llama\",\"vocab_size\":3,\"max_position_embeddings\":2,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
     "\"num_key_value_heads\":1,\"head_dim\":2,\"hidden_size\":4,\"intermediate_size\":3,\"rope_scaling\":{\"rope_type\":"
     "\"llama3\","
     "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":2}}"),
};

/* Copies a file of `folder` to out; returns its bytes. */
static size_t take_file(const char *folder, const char *name, uint8_t *out, size_t most)
{
	char path[96];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "r");
	assert(f);
	const size_t n = fread(out, 1, most, f);
	fclose(f);
	unlink(path);
	return n;
}

/* Writes a file with the tensors of the layout. */
static size_t weights_of(const char *folder, const struct transformer_config *config, bool peft, uint8_t *out, size_t most)
{
	static struct layout layout;
	static struct safetensor tensors[64];
	static const float numbers[256];
	const struct transformer_options plain = {.bare = true},
	                                 lora = {.bare = true, .lora = {.rank = 2, .alpha = 4, .targets = {[LORA_q_proj] = true}}};
	struct transformer *t;
	weir_error err = {0};
	char path[96];
	layout = (struct layout){.count = 0};
	weir_status s = transformer_create(&t, NULL, config, peft ? &lora : &plain, &layout, &err);
	assert(s == WEIR_OK && layout.count <= 64);
	for (uint32_t i = 0; i < layout.count; i++) {
		const struct tensor *from = &layout.tensors[i];
		tensors[i] = (struct safetensor){.dims = from->cols > 0 ? 2 : 1, .shape = {from->rows, from->cols}, .data = numbers};
		snprintf(tensors[i].name, sizeof tensors[i].name, "%s", from->name);
		assert(from->elements <= 256);
	}
	snprintf(path, sizeof path, "%s/w", folder);
	s = safetensors_write(disk_system(), path, tensors, layout.count, NULL, &err);
	assert(s == WEIR_OK);
	(void)s;
	transformer_destroy(t);
	return take_file(folder, "w", out, most);
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const char
	    index[] = "{\"weight_map\":{\"a\":\"w\"}}",
	    adapters[] = "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"use_dora\":false,\"init_lora_weights\":\"gaussian\"}";
	const uint32_t families = sizeof configs / sizeof *configs, last = 4 * families;
	char folder[] = "/tmp/weir-fuzz-XXXXXX", path[64];
	struct transformer_config model = base_of(true);
	weir_error err = {0};
	if (i > last)
		return NULL;
	const bool peft = i == last;
	const char *config = peft ? adapters : configs[i % families];
	const uint8_t flags = peft ? PEFT | OF_LLAMA : (uint8_t)(i / families);
	const size_t config_bytes = strlen(config), index_bytes = !peft && flags & HAS_INDEX ? strlen(index) : 0;
	uint8_t *out = calloc(1, 8192);
	const bool made = out != NULL && mkdtemp(folder) != NULL;
	assert(made);
	(void)made;
	snprintf(path, sizeof path, "%s/config.json", folder);
	write_file(path, (const uint8_t *)config, config_bytes);
	const weir_status read = peft ? WEIR_OK : model_folder_config(folder, &model, &err);
	assert(read == WEIR_OK);
	(void)read;
	out[0] = flags;
	memcpy(out + 1, &(uint16_t){(uint16_t)config_bytes}, 2);
	memcpy(out + 3, &(uint16_t){(uint16_t)index_bytes}, 2);
	memcpy(out + HEADER, config, config_bytes);
	memcpy(out + HEADER + config_bytes, index, index_bytes);
	*size = HEADER + config_bytes + index_bytes;
	*size += weights_of(folder, &model, peft, out + *size, 8192 - *size);
	unlink(path);
	rmdir(folder);
	return out;
}
