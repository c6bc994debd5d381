#!/usr/bin/env python3
"""Bad model folders, tokenizers, texts and token files, for tests/claims/llm 8. Needs only Python.

    hostile_models.py FOLDER      writes FOLDER/CASE/... and FOLDER/cases.tsv, whose lines have a
                                  case's name and the words of its refusal, separated by tabs
"""
import json
import os
import random
import shutil
import struct
import sys

VOCABULARY, WIDTH, POSITIONS = 300, 8, 16
CONFIG = {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": POSITIONS, "n_layer": 1, "n_head": 2, "n_embd": WIDTH}
LLAMA = {"model_type": "llama", "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS, "num_hidden_layers": 1, "num_attention_heads": 2,
         "hidden_size": WIDTH, "intermediate_size": 16}
SHAPES = {
    "transformer.wte.weight": [VOCABULARY, WIDTH], "transformer.wpe.weight": [POSITIONS, WIDTH],
    "transformer.h.0.ln_1.weight": [WIDTH], "transformer.h.0.ln_1.bias": [WIDTH],
    "transformer.h.0.attn.c_attn.weight": [WIDTH, 3 * WIDTH], "transformer.h.0.attn.c_attn.bias": [3 * WIDTH],
    "transformer.h.0.attn.c_proj.weight": [WIDTH, WIDTH], "transformer.h.0.attn.c_proj.bias": [WIDTH],
    "transformer.h.0.ln_2.weight": [WIDTH], "transformer.h.0.ln_2.bias": [WIDTH],
    "transformer.h.0.mlp.c_fc.weight": [WIDTH, 4 * WIDTH], "transformer.h.0.mlp.c_fc.bias": [4 * WIDTH],
    "transformer.h.0.mlp.c_proj.weight": [4 * WIDTH, WIDTH], "transformer.h.0.mlp.c_proj.bias": [WIDTH],
    "transformer.ln_f.weight": [WIDTH], "transformer.ln_f.bias": [WIDTH],
}
FIRST, LAST = "transformer.wte.weight", "transformer.ln_f.bias"


def elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def header_of(shapes):
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 4 * elements(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    return header, at


def packed(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


class Maker:
    def __init__(self, root):
        self.root, self.cases, self.random = root, [], random.Random(1)

    def numbers(self, count):
        return struct.pack(f"<{count}f", *(self.random.uniform(-0.1, 0.1) for _ in range(count)))

    def weights(self, shapes=None, change=None, data=None):
        """The bytes of a file; change(header) corrupts it."""
        header, size = header_of(SHAPES if shapes is None else shapes)
        if change:
            change(header)
        return packed(header, self.numbers(size // 4) if data is None else data)

    def case(self, name, *words, config=CONFIG, files=None, text_config=None):
        """files: {name: bytes}; default: the model's weights. words: the refusal must have them."""
        folder = os.path.join(self.root, name)
        os.makedirs(folder)
        contents = {"model.safetensors": self.weights()} if files is None else files
        contents["config.json"] = json.dumps(config).encode() if text_config is None else text_config
        for file, data in contents.items():
            with open(os.path.join(folder, file), "wb") as f:
                f.write(data)
        self.cases.append((name,) + words)


def change_entry(name, **fields):
    return lambda header: header[name].update(fields)


def weights_cases(m):
    whole = m.weights()
    header, size = header_of(SHAPES)
    text = json.dumps(header)
    file = "model.safetensors"

    def one(name, data, *words):
        m.case("weights-" + name, file, *words, files={file: data})

    def other(name, data, *words):
        m.case("weights-" + name, *words, files={file: data})

    one("truncated", whole[:-100], "cut short")
    one("header-truncated", whole[:200], "not a safetensors file")
    one("empty", b"", "not a safetensors file")
    one("short", b"\1\0\0", "not a safetensors file")
    one("header-overflows", packed(header, m.numbers(size // 4), 2**64 - 1), "not a safetensors file")
    one("header-to-the-sign", packed(header, m.numbers(size // 4), 2**63 - 4), "not a safetensors file")
    one("header-beyond", packed(header, m.numbers(size // 4), len(whole)), "not a safetensors file")
    one("header-no-json", packed(b"{" * 64, b""), "header is not a JSON object")
    one("header-deep", packed(b"[" * 100000, b""), "header is not a JSON object")
    one("header-no-utf8", packed(b'{"\xff": 1}', b""), "header is not a JSON object")
    one("header-list", packed(b"[]", b""), "header is not a JSON object")
    twice = text[:-1] + ', "%s": %s}' % (FIRST, json.dumps(header[FIRST]))
    one("name-twice", packed(twice.encode(), m.numbers(size // 4)), "header is not a JSON object")
    one("long-name", m.weights({**SHAPES, "x" * 500: [1]}), "name has 500 bytes", "the most is 127")
    begin, end = header[LAST]["data_offsets"]
    one("overlap", m.weights(change=change_entry(LAST, data_offsets=[begin - 32, end - 32])), "begins at byte")
    one("gap", m.weights(change=change_entry(LAST, data_offsets=[begin + 32, end + 32]), data=m.numbers(size // 4 + 8)), "begins at byte")
    one("outside", m.weights(change=change_entry(LAST, data_offsets=[begin + 2**40, end + 2**40])), LAST, "cut short")
    one("backwards", m.weights(change=change_entry(LAST, data_offsets=[end, begin])), LAST, "its shape needs")
    one("negative-offset", m.weights(change=change_entry(FIRST, data_offsets=[-32, 0])), FIRST, "its shape needs")
    one("offset-overflows", m.weights(change=lambda h: h[LAST].update(data_offsets=[2**63 - 32, 2**63 - 1])), LAST, "its shape needs")
    one("offset-too-long", packed(text.replace(str(end), str(2**64)).encode(), b""), "header is not a JSON object")
    one("negative-shape", m.weights(change=change_entry(FIRST, shape=[-VOCABULARY, -WIDTH])), FIRST, "dtype, shape and data_offsets")
    one("huge-shape", m.weights(change=change_entry(FIRST, shape=[2**32, 2**32])), FIRST)
    one("shape-of-text", m.weights(change=change_entry(FIRST, shape="300")), FIRST, "dtype, shape and data_offsets")
    one("many-dims", m.weights(change=change_entry(LAST, shape=[1] * 100 + [WIDTH])), LAST, "dtype, shape and data_offsets")
    one("no-dtype", m.weights(change=lambda h: h[LAST].pop("dtype")), LAST, "dtype, shape and data_offsets")
    one("strange-dtype", m.weights(change=change_entry(LAST, dtype="F4_E2M1")), LAST, "F4_E2M1", "can be read")
    one("more-behind", whole + b"1234", "end at byte")
    other("wrong-shape", m.weights({**SHAPES, LAST: [WIDTH + 1]}), LAST, "has shape [9]", "[8]")
    other("transposed", m.weights({**SHAPES, "transformer.h.0.mlp.c_fc.weight": [4 * WIDTH, WIDTH]}), "mlp.c_fc.weight", "[32, 8]", "[8, 32]")
    other("missing", m.weights({k: v for k, v in SHAPES.items() if k != LAST}), "no tensor '" + LAST, "config.json asks for")
    other("one-more", m.weights({**SHAPES, "transformer.h.1.ln_1.bias": [WIDTH]}), "h.1.ln_1.bias", "does not belong to this model")
    masks = {**header, LAST: {**header[LAST], "dtype": "BOOL", "shape": [4 * WIDTH]}}
    other("mask", packed(masks, m.numbers(size // 4)), LAST, "is of BOOL", "expected F32, BF16 or F16")
    whole_numbers = {**header, LAST: {**header[LAST], "dtype": "U64", "shape": [WIDTH // 2]}}
    other("whole-numbers", packed(whole_numbers, m.numbers(size // 4)), LAST, "is of U64", "expected F32, BF16 or F16")
    other("not-finite", m.weights(data=struct.pack("<f", float("nan")) + m.numbers(size // 4 - 1)), FIRST, "NaN or an infinity")
    m.case("weights-none", file, "weights-none has no model.safetensors", files={})
    m.case("weights-folder", file, "not a file", files={})
    os.mkdir(os.path.join(m.root, "weights-folder", file))
    m.case("weights-pipe", file, "not a file", files={})
    os.mkfifo(os.path.join(m.root, "weights-pipe", file))


def index_cases(m):
    half = len(SHAPES) // 2
    parts = [dict(list(SHAPES.items())[:half]), dict(list(SHAPES.items())[half:])]
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    shards = {n: m.weights(p) for n, p in zip(names, parts)}
    index = {name: n for n, p in zip(names, parts) for name in p}

    def one(name, weight_map, *words, files=shards, text=None):
        data = text if text is not None else json.dumps({"weight_map": weight_map}).encode()
        m.case("index-" + name, *words, files={**files, "model.safetensors.index.json": data})

    one("shard-missing", index, names[1], "No such file", files={names[0]: shards[names[0]]})
    one("shard-truncated", index, names[1], "cut short", files={**shards, names[1]: shards[names[1]][:-8]})
    one("up", {**index, LAST: "../" + names[1]}, "index.json", LAST, "not the name of one beside it")
    one("absolute", {**index, LAST: "/etc/passwd"}, "index.json", LAST, "not the name of one beside it")
    one("dots", {**index, LAST: ".."}, "index.json", LAST, "not the name of one beside it")
    one("number", {**index, LAST: 7}, "index.json", LAST, "not the name of one beside it")
    one("zero-byte", {**index, LAST: "a\0b"}, "index.json")
    one("config", {**index, LAST: "config.json"}, "config.json", "not a safetensors file")
    one("itself", {**index, LAST: "model.safetensors.index.json"}, "index.json", "not a safetensors file")
    one("many", {**index, **{f"t{i}": f"m{i}" for i in range(5000)}}, "index.json", "the most is 1024")
    one("twice", {**index, "x": "again.safetensors"}, "two of its files have a tensor", files={**shards, "again.safetensors": shards[names[1]]})
    one("none", {}, "index.json", "no weight_map")
    one("list", [1, 2], "index.json", "no weight_map")
    one("truncated", None, "index.json", "not a JSON object", text=b'{"weight_map": {"a')
    one("deep", None, "index.json", "not a JSON object", text=b'{"a":' * 100000)


def config_cases(m):
    def one(name, *words, without=(), **keys):
        config = {k: v for k, v in {**CONFIG, **keys}.items() if k not in without}
        m.case("config-" + name, "config.json", *words, config=config)

    one("unknown", "model_type", "'mamba'", "gpt2 and llama", model_type="mamba")
    one("unknown-long", "model_type", "gpt2 and llama", model_type="x" * 10000)
    one("no-type", "model_type", "gpt2 and llama", without=("model_type",))
    one("type-of-number", "model_type", "gpt2 and llama", model_type=3)
    for key in ("n_head", "n_layer", "n_embd", "n_positions", "vocab_size"):
        one("no-" + key, key, "is missing", without=(key,))
        one("zero-" + key, key, "0", **{key: 0})
        one("negative-" + key, key, "whole number", **{key: -1})
        one("fraction-" + key, key, "whole number", **{key: 1.5})
        one("text-" + key, key, "whole number", **{key: "2"})
        one("huge-" + key, key, "can be had", **{key: 2**32 - 1})
        one("beyond-" + key, key, "whole number", **{key: 2**40})
    one("heads", "n_embd", "multiple of n_head", n_head=3)
    m.case("config-large", "at most 1099511627776 can be had", config={**CONFIG, "n_embd": 65536, "n_layer": 126, "n_head": 512, "n_inner": 262144})
    m.case("config-wider", FIRST, "[300, 16]", config={**CONFIG, "n_embd": 2 * WIDTH})
    m.case("config-more-layers", "no tensor 'transformer.h.1.ln_1.weight'", config={**CONFIG, "n_layer": 2})
    one("activation", "activation_function", "relu", activation_function="relu")
    one("eps", "epsilon", layer_norm_epsilon=-1)
    one("eps-of-text", "layer_norm_epsilon", "no number", layer_norm_epsilon="small")
    one("std", "initializer_range", initializer_range=1e300)
    one("flag", "tie_word_embeddings", "neither true nor false", tie_word_embeddings=2)
    m.case("config-untied", "no tensor 'lm_head.weight'", config={**CONFIG, "tie_word_embeddings": False})

    def llama(name, *words, **keys):
        m.case("llama-" + name, "config.json", *words, config={**LLAMA, **keys})

    llama("zero-heads", "num_attention_heads", "0", num_attention_heads=0)
    llama("groups", "num_key_value_heads", "shared out", num_attention_heads=4, num_key_value_heads=3, head_dim=2)
    llama("odd", "head_dim", "even", head_dim=3)
    llama("rope", "rope_theta", rope_theta=-1)
    llama("scaling", "rope_scaling", "yarn", rope_scaling={"rope_type": "yarn", "factor": 4})
    llama("factor", "factor", rope_scaling={"rope_type": "linear", "factor": 0})
    llama("waves", "low_freq_factor", rope_scaling={"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1,
                                                    "original_max_position_embeddings": 8})
    llama("activation", "hidden_act", "gelu", hidden_act="gelu")
    for name, text in (("empty", b""), ("truncated", b'{"model_type": "gpt2", "n_'), ("list", b"[1]"), ("deep", b'{"a":' * 100000), ("no-utf8", b'{"model_type": "\xff"}'),
                       ("infinite", b'{"model_type": "gpt2", "layer_norm_epsilon": 1e999}'), ("nan", b'{"model_type": "gpt2", "layer_norm_epsilon": NaN}')):
        m.case("config-" + name, "config.json", text_config=text)


def vocabulary():
    """With the 256 characters that stand for bytes (GPT-2's)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {chr(b if b in plain else 256 + n): i for i, (b, n) in enumerate((b, sum(1 for c in range(b) if c not in plain)) for b in range(256))}


def tokenizer_of(**changes):
    model = {"type": "BPE", "vocab": {**vocabulary(), "ab": 256}, "merges": ["a b"]}
    model.update(changes.pop("model", {}))
    return {"version": "1.0", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"}, "model": model, **changes}


def tokenizer_cases(m):
    def one(name, tokenizer, *words):
        data = tokenizer if isinstance(tokenizer, bytes) else json.dumps(tokenizer).encode()
        m.case("tokenizer-" + name, "tokenizer.json", *words, files={"tokenizer.json": data})

    whole = json.dumps(tokenizer_of()).encode()
    vocab = vocabulary()
    one("truncated", whole[:1000])
    one("empty", b"")
    one("list", b"[]")
    one("deep", b'{"model":' * 100000)
    one("no-utf8", whole.replace(b'"a b"', b'"\xff b"'))
    one("unigram", tokenizer_of(model={"type": "Unigram"}), "Unigram", "BPE")
    one("no-model", {"version": "1.0"}, "model")
    one("no-vocabulary", tokenizer_of(model={"vocab": {}}), "not in the vocabulary")
    one("vocabulary-list", tokenizer_of(model={"vocab": [1]}), "vocab")
    one("id-of-text", tokenizer_of(model={"vocab": {**vocab, "ab": "256"}}))
    one("id-negative", tokenizer_of(model={"vocab": {**vocab, "ab": -1}}))
    one("id-huge", tokenizer_of(model={"vocab": {**vocab, "ab": 2**32 - 1}}))
    one("id-twice", tokenizer_of(model={"vocab": {**vocab, "ab": 1}}))
    one("merge-unknown", tokenizer_of(model={"merges": ["a b", "q zz"]}), "merge")
    one("merge-result-unknown", tokenizer_of(model={"merges": ["a c"]}), "merge")
    one("merge-of-one", tokenizer_of(model={"merges": ["ab"]}), "merge")
    one("merge-number", tokenizer_of(model={"merges": [7]}), "merge")
    one("pattern", tokenizer_of(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": False}), "pattern")
    one("pre-tokenizer", tokenizer_of(pre_tokenizer={"type": "Whisper"}), "Whisper")
    one("normalizer", tokenizer_of(normalizer={"type": "StripAccents"}), "StripAccents")
    one("added-huge", tokenizer_of(added_tokens=[{"id": 2**32, "content": "<s>", "special": True}]), "no whole number from 0")
    one("added-list", tokenizer_of(added_tokens=[[]]))


def text_cases(m):
    """Folders with data.txt or data.jsonl beside a valid tokenizer; llm_8.sh uses them."""
    good = json.dumps(tokenizer_of()).encode()

    def one(name, file, data):
        folder = os.path.join(m.root, "text-" + name)
        os.makedirs(folder)
        for path, content in ((file, data), ("tokenizer.json", good)):
            with open(os.path.join(folder, path), "wb") as f:
                f.write(content)

    line = json.dumps({"text": "it goes on and on"}).encode() + b"\n"
    one("good", "data.txt", b"The quick brown fox jumps over the lazy dog, again and again.\n" * 200)
    one("no-utf8", "data.txt", b"good text\n" * 50 + b"bad \xff\xfe text\n" + b"good text\n" * 50)
    one("cut-utf8", "data.txt", "Stra\u00dfe".encode()[:5])
    one("empty", "data.txt", b"")
    one("short", "data.txt", b"a")
    one("lines", "data.jsonl", line * 40 + b'{"text": "\xff"}\n' + b"no json\n" + b'{"text": 1}\n' + b"[" * 100000 + b"\n" + b'{"text": "a"' + b"\n" + line * 40)
    other = tokenizer_of(model={"vocab": {**vocabulary(), "th": 256}, "merges": ["t h"]})
    one("other", "data.txt", b"The other tokenizer makes other tokens of the same length.\n" * 100)
    with open(os.path.join(m.root, "text-other", "tokenizer.json"), "w") as f:
        json.dump(other, f)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    m = Maker(sys.argv[1])
    shutil.rmtree(m.root, ignore_errors=True)
    os.makedirs(m.root)
    m.case("good", files={"model.safetensors": m.weights(), "tokenizer.json": json.dumps(tokenizer_of()).encode()})
    m.cases.clear()
    for make in (weights_cases, index_cases, config_cases, tokenizer_cases, text_cases):
        make(m)
    with open(os.path.join(m.root, "cases.tsv"), "w") as f:
        f.writelines("\t".join(case) + "\n" for case in m.cases)


if __name__ == "__main__":
    main()
