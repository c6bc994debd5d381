# Minimal model folders and folders of adapters. The weights follow from the tensors' names alone,
# so that other libraries can reproduce them.
#     PYTHONPATH=tests/cases python3 -c 'from model_folder import *; llama("a", rms_norm_eps=1e-5)'
import json, os, struct, zlib

LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=256, hidden_size=16,
             intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
             max_position_embeddings=64, rms_norm_eps=1e-6, hidden_act="silu", rope_theta=10000.0,
             tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
GPT2 = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=256, n_positions=64, n_embd=16,
            n_layer=2, n_head=4, layer_norm_epsilon=1e-5, activation_function="gelu_new",
            tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)


def numbers(name, count, scale):
    state = zlib.crc32(name.encode())
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        yield (state / 2**31 - 1) * scale


def save(path, shapes):  # {name: shape}; norms are about 1
    header, data = {}, b""
    for name, shape in sorted(shapes.items()):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        norm = len(shape) == 1 and name.endswith("weight")
        seed = name[name.index("|") + 1:] if "|" in name else name  # "name|seed": another's numbers
        values = [norm + x for x in numbers(seed, count, 0.5)]
        header[name.split("|")[0]] = dict(dtype="F32", shape=shape, data_offsets=[len(data), len(data) + 4 * count])
        data += struct.pack("<%df" % count, *values)
    text = json.dumps(dict(header, __metadata__={"format": "pt"})).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f)


def write_folder(folder, config, shapes, prefix, bare, head, seed):
    os.makedirs(folder, exist_ok=True)
    write_json(folder + "/config.json", {k: v for k, v in config.items() if v is not ...})
    # bare: shorter names, the same numbers
    all = {(name if bare else prefix + name) + "|" + seed + prefix + name: shape for name, shape in shapes.items()}
    if head or not config["tie_word_embeddings"]:
        all["lm_head.weight|" + seed + (head or "lm_head.weight")] = [256, 16]
    save(folder + "/model.safetensors", all)


def shards(folder):  # model.safetensors becomes two files and an index
    with open(folder + "/model.safetensors", "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header, data, weight_map = json.loads(f.read(size)), f.read(), {}
    names = sorted(name for name in header if name != "__metadata__")
    for i in 0, 1:
        file, part, packed = "model-%05d-of-00002.safetensors" % (i + 1), {}, b""
        for name in names[i::2]:
            begin, end = header[name]["data_offsets"]
            part[name] = dict(header[name], data_offsets=[len(packed), len(packed) + end - begin])
            packed += data[begin:end]
            weight_map[name] = file
        text = json.dumps(part).encode()
        with open(folder + "/" + file, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + packed)
    write_json(folder + "/model.safetensors.index.json", dict(metadata={}, weight_map=weight_map))
    os.remove(folder + "/model.safetensors")


# head: tensor whose numbers the head has; seed: changes all numbers.
def llama(folder, bare=False, head="", seed="", **keys):
    shapes = {"embed_tokens.weight": [256, 16], "norm.weight": [16]}
    for i in range(2):
        for name in "q_proj", "k_proj", "v_proj", "o_proj":
            shapes["layers.%d.self_attn.%s.weight" % (i, name)] = [16, 16]
        for name, shape in ("gate_proj", [24, 16]), ("up_proj", [24, 16]), ("down_proj", [16, 24]):
            shapes["layers.%d.mlp.%s.weight" % (i, name)] = shape
        for name in "input_layernorm", "post_attention_layernorm":
            shapes["layers.%d.%s.weight" % (i, name)] = [16]
    write_folder(folder, dict(LLAMA, **keys), shapes, "model.", bare, head, seed)


def gpt2(folder, bare=False, head="", seed="", **keys):
    shapes = {"wte.weight": [256, 16], "wpe.weight": [64, 16], "ln_f.weight": [16], "ln_f.bias": [16]}
    for i in range(2):
        for name, inputs, outputs in ("attn.c_attn", 16, 48), ("attn.c_proj", 16, 16), ("mlp.c_fc", 16, 64), ("mlp.c_proj", 64, 16):
            shapes["h.%d.%s.weight" % (i, name)] = [inputs, outputs]
            shapes["h.%d.%s.bias" % (i, name)] = [outputs]
        for name in "ln_1", "ln_2":
            shapes["h.%d.%s.weight" % (i, name)] = shapes["h.%d.%s.bias" % (i, name)] = [16]
    write_folder(folder, dict(GPT2, **keys), shapes, "transformer.", bare, head, seed)


# modules: {"model.layers.1.self_attn.q_proj": (inputs, outputs)}.
def adapters(folder, modules, rank=2, **keys):
    os.makedirs(folder, exist_ok=True)
    shapes = {}
    for name, (inputs, outputs) in modules.items():
        shapes["base_model.model.%s.lora_A.weight" % name] = [rank, inputs]
        shapes["base_model.model.%s.lora_B.weight" % name] = [outputs, rank]
    save(folder + "/adapter_model.safetensors", shapes)
    write_json(folder + "/adapter_config.json", dict(dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=4), **keys))


# One token per byte: the 256 characters of GPT-2's alphabet, in order.
def byte_tokenizer(folder, **keys):
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in plain] + [chr(256 + i) for i in range(256 - len(plain))]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    write_json(folder + "/tokenizer.json", dict(dict(
        version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=level,
        post_processor=None, decoder=level,
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                   fuse_unk=False, byte_fallback=False, vocab={c: i for i, c in enumerate(sorted(letters))}, merges=[])), **keys))


def text(path, count=1500):  # bytes of the words below, as a generator draws them
    words = "the cat sat on a mat while rain fell over green hills and far seas ".split()
    out = " ".join(words[int((x + 1) * 7) % len(words)] for x in numbers("text", count, 1))
    with open(path, "w") as f:
        f.write(out[:count] + "\n")
