#!/usr/bin/env python3
"""Scores click data from an exported model, by the models' formulas alone, and compares.

    click_scores.py MODEL.safetensors DATA.svm SCORES.txt [--within 1e-5]

MODEL is what `weir export` wrote, SCORES what `weir predict` wrote for DATA: libsvm without numeric
features, one key for each field, no batch norm. Needs no package. Exits 1 if a score differs by
more.
"""
import argparse
import json
import math
import struct


def read_model(path):
    with open(path, "rb") as f:
        data = f.read()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    metadata, tensors = header.pop("__metadata__"), {}
    for name, t in header.items():
        begin, end = (8 + length + at for at in t["data_offsets"])
        kind = {"F32": "f", "U64": "Q"}[t["dtype"]]
        tensors[name] = (t["shape"], struct.unpack(f"<{(end - begin) // struct.calcsize(kind)}{kind}", data[begin:end]))
    return metadata, tensors


def matrix(tensors, name):
    (rows, columns), values = tensors[name]
    return [values[r * columns : (r + 1) * columns] for r in range(rows)]


def rows_by_key(tensors, table):
    if table + ".keys" not in tensors:
        return None
    return dict(zip(tensors[table + ".keys"][1], matrix(tensors, table + ".values")))


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def layers(tensors, name):
    count = 0
    while f"{name}.{count}.weight" in tensors:
        count += 1
    return range(count)


def tower(tensors, name, x):
    for i in layers(tensors, name):
        bias = tensors[f"{name}.{i}.bias"][1]
        x = [max(0.0, dot(w, x) + b) for w, b in zip(matrix(tensors, f"{name}.{i}.weight"), bias)]
    return x


def cross(tensors, x0):
    x = x0
    for i in layers(tensors, "cross"):
        bias = tensors[f"cross.{i}.bias"][1]
        u = [dot(w, x) + b for w, b in zip(matrix(tensors, f"cross.{i}.weight"), bias)]
        x = [a * b + c for a, b, c in zip(x0, u, x)]
    return x


def softmax(x):
    e = [math.exp(v - max(x)) for v in x]
    return [v / math.fsum(e) for v in e]


def cross_mix(tensors, x0):
    """Gated low-rank experts (Wang et al. 2021, eq. 3 and 4)."""
    x, i = x0, 0
    while f"cross_mix.{i}.bias" in tensors:
        v, c, u = (matrix(tensors, f"cross_mix.{i}.{name}.weight") for name in "vcu")
        gates = softmax([dot(w, x) for w in matrix(tensors, f"cross_mix.{i}.gate.weight")])
        rank, out = len(c[0]), list(x)
        for e, gate in enumerate(gates):
            span = slice(e * rank, (e + 1) * rank)
            low = [math.tanh(dot(w, x)) for w in v[span]]
            mid = [math.tanh(dot(w, low)) for w in c[span]]
            y = [dot(w[span], mid) + b for w, b in zip(u, tensors[f"cross_mix.{i}.bias"][1])]
            out = [o + gate * a * b for o, a, b in zip(out, x0, y)]
        x, i = out, i + 1
    return x


def first_task(tensors, x):
    """The logit of the first task of a shared bottom, or of gated experts (Ma et al. 2018, eq. 6 and 7)."""
    experts = []
    while layers(tensors, f"expert.{len(experts)}"):
        experts.append(tower(tensors, f"expert.{len(experts)}", x))
    mix = experts[0]
    if "task.0.gate.weight" in tensors:
        gates = softmax([dot(w, x) for w in matrix(tensors, "task.0.gate.weight")])
        mix = [dot(gates, column) for column in zip(*experts)]
    return dot(tensors["task.0.head.weight"][1], tower(tensors, "task.0", mix))


def cin(tensors, fields):
    """Every map of every layer, summed over the embedding (Lian et al. 2018, eq. 6 and 8)."""
    maps, out = fields, []
    for k in layers(tensors, "cin"):
        weight = matrix(tensors, f"cin.{k}.weight")  # (maps before * fields, maps)
        products = [[p * q for p, q in zip(a, b)] for a in maps for b in fields]
        maps = [[dot(column, element) for element in zip(*products)] for column in zip(*weight)]
        out += [math.fsum(m) for m in maps]
    return out


def score(kind, tensors, tables, keys):
    logit = tensors["bias"][1][0]
    if tables["linear"]:
        logit += math.fsum(tables["linear"][k][0] for k in keys)
    if not tables["embedding"]:
        return logit
    e = [tables["embedding"][k] for k in keys]
    pairs = [dot(e[i], e[j]) for i in range(len(e)) for j in range(i)]
    x = pairs if kind == "dlrm" else [v for field in e for v in field]
    if kind in ("fm", "deepfm"):
        logit += math.fsum(pairs)
    out = tower(tensors, "tower", x) if layers(tensors, "tower") else []
    if "task.0.head.weight" in tensors:
        logit += first_task(tensors, x)
    if layers(tensors, "cross"):
        out += cross(tensors, x)
    if "cross_mix.0.bias" in tensors:
        out += cross_mix(tensors, x)
    out += cin(tensors, e)
    return logit + (dot(tensors["head.weight"][1], out) if out else 0)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("data")
    p.add_argument("scores")
    p.add_argument("--within", type=float, default=1e-5)
    a = p.parse_args()
    metadata, tensors = read_model(a.model)
    tables = {name: rows_by_key(tensors, name) for name in ("linear", "embedding")}
    with open(a.data) as f:
        rows = [[int(word.split(":")[0]) for word in line.split()[1:]] for line in f]
    with open(a.scores) as f:
        theirs = [float(line) for line in f]
    ours = [1 / (1 + math.exp(-score(metadata["model.kind"], tensors, tables, keys))) for keys in rows]
    if len(ours) != len(theirs) or not ours:
        raise SystemExit(f"{len(theirs)} scores of {len(ours)} rows")
    worst = max(abs(x - y) for x, y in zip(ours, theirs))
    print(f"{metadata['model.kind']}: {len(ours)} scores, the largest difference is {worst:.1e}")
    raise SystemExit(0 if worst <= a.within else 1)


if __name__ == "__main__":
    main()
