#!/usr/bin/env python3
"""PyTorch's side of bench_llm: training steps (forward, backward, AdamW of all weights) of
transformers' GPT-2 of the 124M shape, random weights and tokens, fp32. Prints one line of JSON, as
bench_llm does.

    gpt2_torch.py [--device cpu] [--threads 2] [--sequences 4] [--length 64] [--steps 10] [--compile]
"""
import argparse
import json
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cpu")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--sequences", type=int, default=4)
    p.add_argument("--length", type=int, default=64)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--compile", action="store_true", help="torch.compile")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False, attn_implementation="sdpa")).to(a.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    tokens = torch.randint(50257, (a.sequences, a.length), device=a.device)
    targets = torch.randint(50257, (a.sequences, a.length), device=a.device)

    def loss_of(tokens, targets):
        logits = model(input_ids=tokens).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    if a.compile:
        loss_of = torch.compile(loss_of)
    times, processor = [], []
    for step in range(a.steps + 2):
        began, processor_began = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(tokens, targets)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if step >= 2:  # memory is allocated and kernels are loaded
            times.append(time.perf_counter() - began)
            processor.append(time.process_time() - processor_began)
    step = statistics.median(times)
    print(json.dumps({"torch": torch.__version__, "compiled": a.compile, "threads": a.threads, "sequences": a.sequences, "length": a.length,
                      "tokens_per_s": round(a.sequences * a.length / step, 1), "step_ms": round(1e3 * step, 1), "fastest_ms": round(1e3 * min(times), 1),
                      "processor_ms": round(1e3 * statistics.median(processor), 1), "loss": round(value, 5)}))


if __name__ == "__main__":
    main()
