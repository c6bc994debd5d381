#!/usr/bin/env python3
"""Weir's figures of quality beside scikit-learn's and NumPy's, in float64.

    tests/parity/quality.py cases PROGRAM [--cases 20]    random rows with ties, weights and groups,
                                                          through PROGRAM (quality_rows)
    tests/parity/quality.py eval EVAL.json ROWS SCORES    what `weir eval --json` says of a libsvm
                                                          file, beside the scores of `weir predict`

Prints the largest difference of each figure, and exits 1 if one is beyond 1e-9.
"""
import argparse
import json
import math
import subprocess
import sys

import numpy as np
from scipy.stats import hypergeom
from sklearn.metrics import average_precision_score, log_loss, ndcg_score, roc_auc_score

BUCKETS = 10
CLIP = 1e-7
TOLERANCE = 1e-9


def list_figures(label, score, k):
    """NDCG, recall and hit rate of one list with a positive row: means over the orders of ties."""
    ndcg = ndcg_score([label], [score], k=k) if len(label) > 1 else 1.0
    found, miss, above = 0.0, 1.0, 0
    for value in np.unique(score)[::-1]:
        tie = label[score == value]
        inside = min(len(tie), max(0, k - above))
        found += tie.mean() * inside
        miss *= hypergeom.pmf(0, len(tie), int(tie.sum()), inside)
        above += len(tie)
    return ndcg, found / label.sum(), 1 - miss


def group_figures(label, score, weight, group, places):
    gauc, weights, groups, mixed = 0.0, 0.0, 0, 0
    lists = {k: [] for k in places}
    for g in np.unique(group[group != 0]):
        there = (group == g) & (weight > 0)
        y, s, w = label[there], score[there], weight[there]
        groups += len(y) > 0
        if 0 < y.sum() < len(y):
            mixed += 1
            gauc += w.sum() * roc_auc_score(y, s, sample_weight=w)
            weights += w.sum()
        if y.sum() > 0:
            for k in places:
                lists[k].append(list_figures(y, s, k))
    out = {"groups": groups, "groups_mixed": mixed, "groups_positive": len(lists[places[0]]), "gauc": gauc / weights}
    for k in places:
        for name, mean in zip(("ndcg", "recall", "hit_rate"), np.mean(lists[k], axis=0)):
            out[f"{name}@{k}"] = mean
    return out


def buckets_of(label, score, weight):
    """Buckets of about equal weight: (predicted, observed, weight) of each that is not empty."""
    values, place = np.unique(score, return_inverse=True)
    own = np.bincount(place, weight)
    middle = np.cumsum(own) - own / 2
    number = np.minimum(np.floor(middle / own.sum() * BUCKETS), BUCKETS - 1)[place]
    out = []
    for b in range(BUCKETS):
        w = weight * (number == b)
        if w.sum() > 0:
            out.append((np.average(score, weights=w), np.average(label, weights=w), w.sum()))
    return out


def figures(label, score, weight, group, places):
    p, rate = np.clip(score, CLIP, 1 - CLIP), np.average(label, weights=weight)
    loss = log_loss(label, p, sample_weight=weight)
    buckets = buckets_of(label, score, weight)
    out = {
        "auc": roc_auc_score(label, score, sample_weight=weight),
        "pr_auc": average_precision_score(label, score, sample_weight=weight),
        "logloss": loss,
        "normalized_entropy": loss / -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate)),
        "calibration": np.average(score, weights=weight) / rate,
        "calibration_error": sum(w * abs(p - o) for p, o, w in buckets) / weight.sum(),
    }
    for i, (predicted, observed, w) in enumerate(buckets):
        out |= {f"predicted of bucket {i}": predicted, f"observed of bucket {i}": observed, f"weight of bucket {i}": w}
    return out | group_figures(label, score, weight, group, places)


def flat(quality):
    """The figures of Weir's JSON, by the names of figures()."""
    out = {k: v for k, v in quality.items() if not isinstance(v, list)}
    for at in quality["at"]:
        out |= {f"{name}@{at['k']}": at[name] for name in ("ndcg", "recall", "hit_rate")}
    for i, bucket in enumerate(quality["buckets"]):
        out |= {f"{name} of bucket {i}": bucket[name] for name in ("predicted", "observed", "weight")}
    return out


def compare(is_, expected, largest):
    if len(is_["buckets"]) != sum(name.startswith("weight of bucket") for name in expected):
        sys.exit("the numbers of buckets differ")
    is_ = flat(is_)
    for name, value in expected.items():
        kind, difference = name.split("@")[0].split(" of ")[0], abs(is_[name] - value)
        if math.isnan(difference):
            sys.exit(f"{name} is undefined")
        largest[kind] = max(largest.get(kind, 0.0), difference)


def random_rows(seed):
    """Odd cases have few distinct scores, and every third one weights; some rows have no group."""
    r = np.random.default_rng(seed)
    n = int(r.integers(50, 2000))
    levels = 9 if seed % 2 else 1 << 24
    score = ((r.integers(0, levels, n) + 0.5) / levels).astype(np.float32)
    label = (r.random(n) < 0.2 + 0.5 * score).astype(np.float64)
    weight = r.integers(0, 5, n) * 0.5 if seed % 3 == 0 else np.ones(n)
    group = r.integers(0, n // 6 + 2, n).astype(np.uint64)
    return label, score.astype(np.float64), weight.astype(np.float64), group


def run_cases(program, cases, largest):
    places = [1, 3, 10, 100]
    for seed in range(cases):
        rows = random_rows(seed)
        text = "".join(f"{y:g} {s:.9g} {w:g} {g}\n" for y, s, w, g in zip(*rows))
        out = subprocess.run([program, *map(str, places)], input=text, text=True, stdout=subprocess.PIPE, check=True).stdout
        compare(json.loads(out), figures(*rows, places), largest)
    return f"{cases} random cases"


def run_eval(path, rows, scores, largest):
    with open(path, encoding="utf-8") as f:
        quality = json.load(f)
    with open(rows, encoding="utf-8") as f:
        words = [line.split() for line in f]
    label = np.array([float(w[0]) for w in words])
    group = np.array([int(w[1].removeprefix("qid:")) + 1 for w in words], dtype=np.uint64)
    score = np.loadtxt(scores, dtype=np.float32).astype(np.float64)
    compare(quality, figures(label, score, np.ones(len(label)), group, [at["k"] for at in quality["at"]]), largest)
    return f"{len(label)} rows of weir predict"


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("cases")
    verb.add_argument("program")
    verb.add_argument("--cases", type=int, default=20)
    verb = verbs.add_parser("eval")
    for name in ("json", "rows", "scores"):
        verb.add_argument(name)
    args = parser.parse_args()
    largest = {}
    if args.verb == "cases":
        what = run_cases(args.program, args.cases, largest)
    else:
        what = run_eval(args.json, args.rows, args.scores, largest)
    for name, difference in sorted(largest.items()):
        print(f"{name:20} {difference:.1e}", file=sys.stderr)
    worst = max(largest, key=lambda name: largest[name])
    print(f"{what}: the largest difference is {largest[worst]:.1e}, of {worst}")
    sys.exit(not largest[worst] <= TOLERANCE)


if __name__ == "__main__":
    main()
