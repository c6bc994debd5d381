#!/usr/bin/env python3
"""Reads folders that weir wrote with transformers and PEFT, and writes folders for weir to read
(tests/claims/llm 6).

    check_export.py make WORK TEXT    writes WORK/tokenizer; WORK/gpt2 and WORK/llama, models with
                                      random weights; WORK/tokens.safetensors, sequences for the
                                      comparison; with PEFT also their adapters, WORK/gpt2-peft and
                                      WORK/llama-peft
    check_export.py check PLAN        compares. PLAN has a comparison per line, separated by spaces:
        logits NAME FOLDER WITHIN OURS         logits of a model folder by AutoModelForCausalLM, and
                                               those in the file OURS
        adapters NAME FOLDER WITHIN OURS BASE  the same for adapters in the model BASE, by PEFT
        same NAME FILE WITHIN OURS             logits in two files
        other NAME FILE BEYOND OURS            logits in two files differ by more
        weights NAME FOLDER TYPE FILE          every tensor in FILE is the model's, rounded to TYPE,
                                               bit for bit
        tensors NAME FOLDER TYPE FILE          the same for a folder's adapter_model.safetensors
        tokens NAME FOLDER TEXT BIN            ids of a text by AutoTokenizer, and those of weir's
                                               token file

Errors are relative to the largest logit. Exits 0 if all comparisons hold; one that cannot run
counts as failed. --seed N: other weights, tokens and adapters.
"""
import os
import pathlib
import sys
import traceback

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, LlamaConfig, PreTrainedTokenizerFast

import read_tokens

try:
    import peft
except ImportError:
    peft = None

VOCABULARY, SEQUENCES, LENGTH = 512, 3, 48
END = "<|endoftext|>"
TARGETS = {"gpt2": ["c_attn", "c_proj", "c_fc"], "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}


def make_tokenizer(text):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([text], trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                                      show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token=END, bos_token=END)


def make_config(kind):
    common = dict(vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0)
    if kind == "gpt2":
        return GPT2Config(n_positions=64, n_embd=48, n_layer=2, n_head=3, n_inner=100, layer_norm_epsilon=1e-6, **common)
    # All variants of a Llama's config.json: grouped queries, heads that do not divide the width,
    # Llama 3's positions, biases, a tied head
    return LlamaConfig(hidden_size=40, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                       max_position_embeddings=64, rms_norm_eps=1e-6, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_theta=500.0,
                       rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}, **common)


def make_model(kind):
    model = AutoModelForCausalLM.from_config(make_config(kind), dtype=torch.float32)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((1.0 if p.dim() == 1 and "bias" not in name else 0.0) + 0.1 * torch.randn(p.shape))
    return model


def make_adapters(kind, base, folder):
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=6, lora_alpha=9, target_modules=TARGETS[kind], fan_in_fan_out=kind == "gpt2", init_lora_weights=False)
    adapted = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if "lora_" in name:
                p.copy_(0.1 * torch.randn(p.shape))
    adapted.save_pretrained(folder)


def make(work, path):
    text = pathlib.Path(path).read_text()
    tokenizer = make_tokenizer(text)
    tokenizer.save_pretrained(work / "tokenizer")
    ids = tokenizer(text[: 40 * LENGTH * SEQUENCES])["input_ids"][: LENGTH * (SEQUENCES - 1)]
    strange = torch.randint(VOCABULARY, (LENGTH,)).tolist()
    save_file({"tokens": torch.tensor(ids + strange).reshape(SEQUENCES, LENGTH).to(torch.uint64)}, work / "tokens.safetensors")
    for kind in ("gpt2", "llama"):
        make_model(kind).save_pretrained(work / kind)
        tokenizer.save_pretrained(work / kind)
        if peft is not None:
            make_adapters(kind, work / kind, work / f"{kind}-peft")


# --- Comparing


def logits_of(model, work):
    tokens = load_file(work / "tokens.safetensors")["tokens"].to(torch.int64)
    with torch.no_grad():
        return model.eval()(input_ids=tokens).logits


def loaded(folder, **how):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **how)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"], f"{folder}: {report}"
    return model


def compare(name, theirs, ours, limit, other=False):
    assert theirs.shape == ours.shape, f"shapes {tuple(theirs.shape)} and {tuple(ours.shape)}"
    error, limit = ((theirs - ours).abs().max() / theirs.abs().max()).item(), float(limit)
    print(f"{name}: {error:.2g} of the largest logit, {limit:g} " + ("must be" if other else "may be"))
    return error > limit if other else error <= limit


def check_bits(name, theirs, file, kind):
    ours, differ = load_file(file), []
    for key, tensor in ours.items():
        want = tensor.to(getattr(torch, kind))
        if key not in theirs or theirs[key].dtype != want.dtype or not torch.equal(theirs[key], want):
            differ.append(key)
    print(f"{name}: {len(ours)} tensors" + (f", {len(differ)} differ, the first: {differ[0]}" if differ else f" are the same as {kind}, bit for bit"))
    return not differ and len(ours) > 0


def check_tokens(name, folder, text, file):
    theirs = AutoTokenizer.from_pretrained(folder)(pathlib.Path(text).read_text(), add_special_tokens=False)["input_ids"]
    _, documents = read_tokens.read(file)
    ours = [i for document in documents for i, _ in document]
    print(f"{name}: {len(theirs)} ids of AutoTokenizer, {len(ours)} of weir, " + ("all the same" if theirs == ours else "others"))
    return theirs == ours and len(ours) > 0


def check_line(work, what, name, folder, fourth, fifth, base=None):
    if what == "logits":
        return compare(name, logits_of(loaded(folder, dtype=torch.float32), work), load_file(fifth)["logits"], fourth)
    if what == "adapters":
        model = peft.PeftModel.from_pretrained(loaded(base, dtype=torch.float32), folder)
        return compare(name, logits_of(model, work), load_file(fifth)["logits"], fourth)
    if what in ("same", "other"):
        return compare(name, load_file(folder)["logits"], load_file(fifth)["logits"], fourth, what == "other")
    if what == "weights":
        return check_bits(name, loaded(folder, dtype="auto").state_dict(), fifth, fourth)
    if what == "tensors":
        return check_bits(name, load_file(os.path.join(folder, "adapter_model.safetensors")), fifth, fourth)
    return check_tokens(name, folder, fourth, fifth)


def check(plan):
    lines = [line.split() for line in plan.read_text().splitlines()]
    held = 0
    for line in lines:
        try:
            held += check_line(plan.parent, *line)
        except Exception:  # reported, and counts as a failure
            print(f"{line[1]}: {traceback.format_exc(limit=1).splitlines()[-1]}")
    print(f"{held} of {len(lines)} comparisons hold")
    return 0 if held == len(lines) > 0 else 1


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--seed" in arguments:
        at = arguments.index("--seed")
        torch.manual_seed(int(arguments[at + 1]))
        del arguments[at : at + 2]
    if arguments[0] == "make":
        make(pathlib.Path(arguments[1]), arguments[2])
    else:
        sys.exit(check(pathlib.Path(arguments[1])))
