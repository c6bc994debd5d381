#!/usr/bin/env python3
"""Computes reference values of a language model with transformers (PyTorch, fp32): logits, loss,
the gradient of every tensor, and ten steps of AdamW.

    make_llm_vectors.py golden FOLDER      writes three models with random weights, each as a folder
                                           in FOLDER, in the form of tests/golden/llm
    make_llm_vectors.py of MODEL OUT       writes vectors of the model folder MODEL to the file OUT
    make_llm_vectors.py entries MODEL OUT  the same, but only the norm and some entries per tensor
    --seed N                               other weights and tokens

A file of vectors (safetensors) has
    tokens, targets   U64 (steps, sequences, length); a target of 2^32 - 1 has no loss
    logits, loss      of the first step's sequences
    grad.NAME         gradient of every tensor in the first step; with `entries`: norm.NAME, and
                      grad.NAME at the positions of at_entries
    losses            (steps) before each step of AdamW (rate 1e-3, betas 0.9 and 0.95, decay 0.1 of
                      all tensors)
    after.NAME        every tensor after the last step; with `entries` as above
    least.NAME        BF16, per element of these: the smallest root of Adam's second moment after a
                      step, relative to the tensor's largest gradient in that step
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, LlamaConfig

STEPS, NONE, BETA2 = 10, 2**32 - 1, 0.95
ENTRIES = 16


SEED = 7  # seed of weights; --seed changes that of weights and tokens


def make_model(kind):
    if kind == "gpt2":
        config = GPT2Config(vocab_size=61, n_positions=16, n_embd=16, n_layer=2, n_head=2, n_inner=40, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    elif kind == "llama":
        # Grouped queries, heads that do not divide the width, Llama 3's positions with all waves.
        config = LlamaConfig(vocab_size=61, hidden_size=20, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                             max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False)
        rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
        if hasattr(config, "rope_parameters"):
            config.rope_parameters = {"rope_theta": 500.0, **rope}
        else:
            config.rope_theta, config.rope_scaling = 500.0, rope
    else:  # every bias, one key head, a tied head
        config = LlamaConfig(vocab_size=37, hidden_size=12, intermediate_size=20, num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=1,
                             max_position_embeddings=32, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        # Norms' weights near 1, without zeros or cancellation.
        for name, p in model.named_parameters():
            center = 1.0 if p.dim() == 1 and "bias" not in name else 0.0
            p.copy_(center + 0.25 * torch.randn(p.shape, generator=generator))
    return model


def make_tokens(vocabulary, sequences, length):
    generator = torch.Generator().manual_seed(SEED + 4)
    tokens = torch.randint(vocabulary, (STEPS, sequences, length + 1), generator=generator)
    targets = tokens[:, :, 1:].clone()
    targets[:, 0, : length // 3] = NONE  # a prompt
    targets[:, -1, -1] = NONE
    return tokens[:, :, :-1].contiguous(), targets


def loss_of(model, tokens, targets):
    logits = model(input_ids=tokens).logits
    ignored = torch.where(targets == NONE, torch.full_like(targets, -100), targets)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ignored.flatten(), ignore_index=-100)
    return logits, loss


def vectors_of(model, tokens, targets):
    model.eval()
    out = {"tokens": tokens.to(torch.uint64), "targets": targets.to(torch.uint64)}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, BETA2), eps=1e-8, weight_decay=0.1)
    losses, least = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        logits, loss = loss_of(model, tokens[step], targets[step])
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out["logits"], out["loss"] = logits.detach().flatten(0, 1).clone(), loss.detach().reshape(1).clone()
            for name, p in model.named_parameters():
                out["grad." + name] = p.grad.clone()
        optimizer.step()
        for name, p in model.named_parameters():
            root = (optimizer.state[p]["exp_avg_sq"] / (1 - BETA2 ** (step + 1))).sqrt()
            # No gradient, no step.
            relative = torch.where(root > 0, root / p.grad.abs().max(), torch.inf)
            least[name] = torch.minimum(least.get(name, relative), relative)
    out["losses"] = torch.tensor(losses)
    for name, p in model.named_parameters():
        out["after." + name] = p.detach().clone()
        out["least." + name] = least[name].to(torch.bfloat16)
    return out


def entries_of(vectors):
    """The norm of each float tensor, and entries spread over it, including the last."""
    out = {}
    for name, v in vectors.items():
        if not v.dtype.is_floating_point or v.numel() <= ENTRIES:
            out[name] = v
            continue
        flat = v.flatten()
        at = torch.arange(1, ENTRIES + 1) * flat.numel() // ENTRIES - 1
        out[name] = flat[at].clone()
        if not name.startswith("least."):
            out["norm." + name] = flat.double().norm().float().reshape(1)
    return out


def main():
    global SEED
    torch.set_num_threads(2)
    what = sys.argv[1:]
    if "--seed" in what:
        at = what.index("--seed")
        SEED = int(what[at + 1])
        del what[at : at + 2]
    if len(what) == 2 and what[0] == "golden":
        for kind, sequences, length in (("gpt2", 2, 13), ("llama", 2, 21), ("llama_biased", 3, 9)):
            folder = os.path.join(what[1], kind)
            os.makedirs(folder, exist_ok=True)
            model = make_model(kind)
            model.save_pretrained(folder)
            os.remove(os.path.join(folder, "generation_config.json"))
            tokens, targets = make_tokens(model.config.vocab_size, sequences, length)
            save_file(vectors_of(model, tokens, targets), os.path.join(folder, "vectors.safetensors"))
    elif len(what) == 3 and what[0] in ("of", "entries"):
        config = AutoConfig.from_pretrained(what[1])
        model = AutoModelForCausalLM.from_pretrained(what[1], config=config, dtype=torch.float32)
        vectors = vectors_of(model, *make_tokens(config.vocab_size, 2, min(48, config.max_position_embeddings)))
        save_file(entries_of(vectors) if what[0] == "entries" else vectors, what[2])
    else:
        sys.exit(__doc__)
    print(json.dumps({"torch": torch.__version__, "steps": STEPS}))


if __name__ == "__main__":
    main()
