#!/usr/bin/env python3
"""The obvious PyTorch code for the subjects of bench_gpu, bench_llm and `weir bench step`, on the
same device: peers.py [compression] [dlrm] [gpt2] [--ways plain | compiled | all] [--out FILE]
[--quick] [--device D].

Each figure is appended to FILE at once, as a line separated by tabs: name, n, seconds per call, and
how. The names are those of the others. Most subjects have several ways, and the fastest counts:
uncompiled code, which comes first, or torch.compile, which takes minutes; sparse or dense gradients
of embeddings. Exit status 77: no PyTorch, or no device."""
import argparse
import statistics
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    print("peers: there is no PyTorch here", file=sys.stderr)
    sys.exit(77)

MI = 1 << 20
DIM, FIELDS, DENSE = 128, 26, 13
BOTTOM, TOP = [512, 256, 128], [1024, 1024, 512, 256]


class Bench:
    def __init__(self, args):
        self.device, self.quick, self.ways = torch.device(args.device), args.quick, args.ways
        self.out = open(args.out, "a") if args.out else None
        self.ids = 100 if args.quick else 40000  # per field

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def keep(self, name, n, seconds, how):
        print(f"{name + ', ' + how:<72} {n:>11} {seconds * 1e6:10.1f} us", flush=True)
        if self.out:
            self.out.write(f"{name}\t{n}\t{seconds:.9g}\t{how}\n")
            self.out.flush()

    def wants(self, compiled):
        return self.ways == "all" or (self.ways == "compiled") == compiled

    def calls(self, run, rounds, calls, prepare=lambda: None):
        """Median seconds of one of `calls` calls in a row: run(i)."""
        seconds = []
        for r in range(rounds + 1):
            prepare()
            self.wait()
            start = time.perf_counter()
            for i in range(calls):
                run(i)
            self.wait()
            if r > 0:
                seconds.append((time.perf_counter() - start) / calls)
        return statistics.median(seconds)

    def measure(self, name, n, ways, measure):
        """ways: {how: function}, each measured and written. One that fails is told, and left
        out."""
        for how, function in ways.items():
            if not self.wants("torch.compile" in how):
                continue
            try:
                self.keep(name, n, measure(function), how)
            except Exception as e:  # a compiler may refuse code that runs uncompiled
                self.wait_after_failure(e, f"{name}, {how}")

    def wait_after_failure(self, e, what):
        print(f"  {what}: failed: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", flush=True)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def compiled(function):
    return torch.compile(function) if hasattr(torch, "compile") else function


# --- Compression with error feedback. Each function takes gradient, residual and velocity, and
# updates the latter two in place.


def quantised(values):
    scale = values.abs().max() / 127
    return (values / scale).round().clamp(-127, 127).to(torch.int8), scale


def topk_int8(grad, residual, velocity, k):
    residual.add_(grad)
    _, index = torch.topk(residual.abs(), k, sorted=False)
    values = residual[index]
    codes, scale = quantised(values)
    residual[index] = values - codes * scale
    return index.to(torch.int32), codes, scale


def topk_dgc(grad, residual, velocity, k):
    velocity.mul_(0.9).add_(grad)
    residual.add_(velocity)
    _, index = torch.topk(residual.abs(), k, sorted=False)
    values = residual[index]
    codes, scale = quantised(values)
    residual[index] = values - codes * scale
    velocity[index] = 0
    return index.to(torch.int32), codes, scale


def dense_int8(grad, residual, velocity, k):
    acc = (residual + grad).view(-1, 256)
    scale = acc.abs().amax(1, keepdim=True) / 127
    codes = (acc / scale).round().clamp(-127, 127).to(torch.int8)
    residual.copy_((acc - codes * scale).view(-1))
    return codes, scale


def compression(b):
    for n in [1 << 16] if b.quick else [16 * MI, 64 * MI, 256 * MI]:
        grad, pristine = torch.randn(n, device=b.device), torch.randn(n, device=b.device)
        sets = 2 if b.quick or n > 64 * MI else 4
        residual = [pristine.clone() for _ in range(sets)]
        velocity = [pristine.clone() for _ in range(sets)]

        def restore():
            for i in range(sets):
                residual[i].copy_(pristine)
                velocity[i].copy_(pristine)

        for name, function in [("top-k 1 % int8", topk_int8), ("top-k 1 % int8, DGC", topk_dgc), ("int8 with feedback", dense_int8)]:
            ways = {"as written": function}
            if function is dense_int8:  # topk has only cheap parts to fuse
                ways["torch.compile"] = compiled(function)
            b.measure(name, n, ways, lambda f: b.calls(lambda i: f(grad, residual[i], velocity[i], n // 100), 2 if b.quick else 5, sets, restore))


# --- A DLRM step (Naumov 2019)


def tower(sizes, last):
    layers = []
    for i, (a, c) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(a, c))
        if i + 2 < len(sizes) or last:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Dense(nn.Module):
    """All but the look-up."""

    def __init__(self):
        super().__init__()
        self.bottom = tower([DENSE] + BOTTOM, True)
        pairs = (FIELDS + 1) * FIELDS // 2
        self.top = tower([DIM + pairs] + TOP + [1], False)
        i, j = torch.tril_indices(FIELDS + 1, FIELDS + 1, -1)
        self.register_buffer("i", i)
        self.register_buffer("j", j)

    def forward(self, numbers, rows, labels):
        x = self.bottom(numbers)
        t = torch.cat([x.unsqueeze(1), rows], 1)
        pairs = torch.bmm(t, t.transpose(1, 2))[:, self.i, self.j]
        logit = self.top(torch.cat([x, pairs], 1)).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(logit, labels)


def batches(b, rows, count):
    """On the host, in pinned memory where there is a device; ids follow a power law."""
    g = torch.Generator().manual_seed(1)
    for _ in range(count):
        ids = (torch.rand(rows, FIELDS, generator=g) ** 4 * b.ids).to(torch.int64).clamp_(max=b.ids - 1) + torch.arange(FIELDS) * b.ids
        batch = (ids, torch.randn(rows, DENSE, generator=g), (torch.rand(rows, generator=g) < 0.25).float())
        yield tuple(t.pin_memory() for t in batch) if b.device.type == "cuda" else batch


def step_of(b, embedding, dense, run, update):
    """One step: the batch to the device, forward, backward, and plain SGD where `update` says
    so."""
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (dense, embedding)]

    def step(batch):
        ids, numbers, labels = (t.to(b.device, non_blocking=True) for t in batch)
        run(numbers, embedding(ids), labels).backward()
        for o in optimizers:
            if update:
                o.step()
            o.zero_grad(set_to_none=True)

    return step


def dlrm(b):
    rows, count = (64, 2) if b.quick else (65536, 4)
    data = list(batches(b, rows, count))
    dense = Dense().to(b.device)
    embeddings = {kind: nn.Embedding(FIELDS * b.ids, DIM, sparse=kind == "sparse").to(b.device) for kind in ("sparse", "dense")}
    for how in ("as written", "torch.compile"):
        if not b.wants(how == "torch.compile"):
            continue
        # Compiled once, as that takes long.
        run = compiled(dense) if how == "torch.compile" else dense
        for what, update in [("", True), (", without the update", False)]:
            for precision, name in [("highest", "fp32"), ("high", "tf32")]:
                if hasattr(torch, "set_float32_matmul_precision"):
                    torch.set_float32_matmul_precision(precision)

                def measure(kind):
                    step = step_of(b, embeddings[kind], dense, run, update)
                    for batch in data:
                        step(batch)
                    return b.calls(lambda i: step(data[i % count]), 1 if b.quick else 5, count)

                ways = {f"{how}, {kind} gradients of embeddings": kind for kind in embeddings}
                b.measure(f"dlrm step {name}{what}", rows, ways, measure)


# --- A training step of GPT-2's 124M shape (Radford et al. 2019), bf16 by autocast


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (t.view(rows, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln_1(x)).split(width, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary, positions, layers, heads, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = nn.functional.linear(self.last(x), self.tokens.weight)
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def gpt2(b):
    rows, length = (2, 16) if b.quick else (16, 1024)
    # 50257 rounded up for the tensor cores.
    vocabulary, shape = (512, (1024, 2, 2, 32)) if b.quick else (50304, (1024, 12, 12, 768))
    if hasattr(torch, "set_float32_matmul_precision"):
        torch.set_float32_matmul_precision("high")
    tokens, targets = (torch.randint(min(vocabulary, 50257), (rows, length), device=b.device) for _ in range(2))

    def measure(way):
        model = GPT2(vocabulary, *shape).to(b.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        run = compiled(model) if way else model

        def step(i):
            with torch.autocast(b.device.type, dtype=torch.bfloat16):
                loss = run(tokens, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        step(0)
        step(0)
        return b.calls(step, 1 if b.quick else 5, 2 if b.quick else 4)

    b.measure("gpt2 step bf16", rows * length, {"as written": False, "torch.compile": True}, measure)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], "compression", "dlrm", "gpt2"])
    parser.add_argument("--ways", choices=["plain", "compiled", "all"], default="all")
    parser.add_argument("--out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("peers: PyTorch sees no device here", file=sys.stderr)
        sys.exit(77)
    torch.manual_seed(1)
    b = Bench(args)
    name = torch.cuda.get_device_name() if b.device.type == "cuda" else "the CPU"
    print(f"PyTorch {torch.__version__} on {name}")
    for group in args.groups or ["compression", "dlrm", "gpt2"]:
        {"compression": compression, "dlrm": dlrm, "gpt2": gpt2}[group](b)


if __name__ == "__main__":
    main()
