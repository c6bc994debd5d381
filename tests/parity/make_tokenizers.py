#!/usr/bin/env python3
"""Writes small tokenizer.json files in the style of well-known models, and the ids that Hugging
Face's tokenizers library gives for hostile strings.

    make_tokenizers.py FOLDER [--strings N] [--seed S] [--vocabulary N] [--pieces N]

FOLDER gets NAME.json for each tokenizer, strings.jsonl ({"text": ...} per line), and NAME.ids.json:
a list of ids for each string, including the post-processor's, and "decoded": the decoded ids
without special tokens, for strings that do not survive the round trip. The files in
tests/golden/tokenizers were made with --strings 220 --vocabulary 620 --pieces 5. Needs the package
tokenizers."""
import argparse
import json
import os
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import hostile_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def corpus():
    lines = [line for name in ("README.md", "docs/ARCHITECTURE.md", "docs/OPERATIONS.md") for line in (ROOT / name).read_text().splitlines(True)]
    return lines + hostile_text.strings(400, 99)


def train(tokenizer, size, special=(), alphabet=(), limit=400):
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), initial_alphabet=list(alphabet),
                                                                limit_alphabet=limit, show_progress=False))
    return tokenizer


def with_words(tokenizer, words):
    """Words in the vocabulary that no merge produces, as in Llama 3's."""
    j = json.loads(tokenizer.to_str())
    vocabulary = j["model"]["vocab"]
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    return Tokenizer.from_str(json.dumps(j))


def gpt2(size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.decoder = decoders.ByteLevel()
    return train(t, size, ["<|endoftext|>"], sorted(pre_tokenizers.ByteLevel.alphabet()))


def llama3(size):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t = with_words(train(t, size, [], sorted(pre_tokenizers.ByteLevel.alphabet())), ["Ġtokenizer", "fooBar", "ĠÐŃÐ¢Ðŀ"])
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
    begin = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                            processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                                                          special_tokens=[("<|begin_of_text|>", begin)])])
    return t


def llama2(size):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    # Only for training: merges then stay inside words, as in sentencepiece.
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    train(t, size, ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)], ["▁"], 120)
    j = json.loads(t.to_str())
    j["added_tokens"] = j["added_tokens"][:3]  # "<0x41>" in a text is not a byte
    t = Tokenizer.from_str(json.dumps(j))
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def metaspace(size):
    """Without byte_fallback, with merges across words, and with every option of an added token."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    train(t, size, ["<unk>", "<s>", "</s>"], [], 120)
    t.normalizer = normalizers.Replace(Regex(r"[\t\n]"), " ")
    t.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    t.add_tokens([AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
                  AddedToken("<word>", single_word=True, normalized=False), AddedToken("Normal\tly", normalized=True), AddedToken("quick", single_word=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def splits(size):
    """A normal form, digits one by one, cuts of every kind, and a space in front."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split("-", "merged_with_previous"), pre_tokenizers.Split("<", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"[\p{P}\p{S}]"), "contiguous"), pre_tokenizers.Split(Regex(r"\s+"), "merged_with_next", invert=True),
        pre_tokenizers.Split("~", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=True)])
    t.decoder = decoders.ByteLevel()
    return train(t, size, ["<|im_start|>"], sorted(pre_tokenizers.ByteLevel.alphabet()))


MAKERS = {"gpt2": gpt2, "llama3": llama3, "llama2": llama2, "metaspace": metaspace, "splits": splits}


def as_file(name, tokenizer):
    """The JSON in its published form: GPT-2's merges are strings."""
    j = json.loads(tokenizer.to_str())
    if name == "gpt2":
        j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
    return json.dumps(j, ensure_ascii=False, separators=(",", ":"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--strings", type=int, default=10000)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--vocabulary", type=int, default=2000)
    p.add_argument("--pieces", type=int, default=12)
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    texts = hostile_text.strings(a.strings, a.seed, a.pieces)
    with open(a.folder / "strings.jsonl", "w") as f:
        f.writelines(json.dumps({"text": t}, ensure_ascii=False, separators=(",", ":")) + "\n" for t in texts)
    for name, make in MAKERS.items():
        path = a.folder / (name + ".json")
        path.write_text(as_file(name, make(a.vocabulary)))
        t = Tokenizer.from_file(str(path))
        ids = [t.encode(text).ids if name != "splits" or hostile_text.old(text) else None for text in texts]
        decoded = {str(i): t.decode(x, skip_special_tokens=True) for i, x in enumerate(ids) if x is not None}
        decoded = {i: d for i, d in decoded.items() if d != texts[int(i)]}
        with open(a.folder / (name + ".ids.json"), "w") as f:
            json.dump({"ids": ids, "decoded": decoded}, f, ensure_ascii=False, separators=(",", ":"))
        print(name, "vocabulary", t.get_vocab_size(), "strings", sum(x is not None for x in ids), "tokens", sum(len(x) for x in ids if x), "decoded otherwise", len(decoded))


if __name__ == "__main__":
    main()
