"""tune_2.py BUILD WORK QUICK: the planner's predictions and choices against what runs measure."""
import itertools
import json
import os
import subprocess
import sys

BUILD, WORK, QUICK = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
TEXT = os.environ["WEIR_DATA"] + "/tinyshakespeare/input.txt"


def say(line):
    print(line, file=sys.stderr, flush=True)


# --- Jobs

ADAM = "{kind: adam, lr: 2.0e-3}"
SLOWLY = "{kind: adam, lr: 5.0e-4}"  # the AUC rises over several passes


def clicks(rows, hidden, valid=0, optimizer=ADAM):
    """A click job; further settings come by --set."""
    return f"""
data: {{generate: {{rows: {rows}, ids: 100000, seed: 11}}, split: {{by: crc32, train: {100 - valid}, valid: {valid}, test: 0}}, batch: 512, unit_batches: 16, seed: 1}}
model: {{kind: deepfm, dim: 8, hidden: {hidden}}}
tables: {{embedding: {{optimizer: {optimizer}}}, dense: {{optimizer: {optimizer}}}}}
train: {{passes: 1, seed: 1}}
"""


def text(layers, width, passes=1):
    """A language model of that size on the bytes of a text."""
    return f"""
data: {{format: tokens, tokenizer: bytes, sequence: 64, train: '{TEXT}', split: {{by: crc32, train: 100, valid: 0, test: 0}}, batch: 16, unit_batches: 16, seed: 1}}
model: {{kind: gpt2, layers: {layers}, heads: 4, width: {width}}}
tables: {{dense: {{optimizer: {ADAM}}}}}
train: {{passes: {passes}, seed: 1}}
"""


# Short units: at the end of a pass all wait for those that the slow worker holds.
SLOW = ["train.pace.batch_ms=20", "train.pace.slow=one", "train.pace.times=4", "data.unit_batches=4"]
NET = lambda rate: [f"cluster.network.rate={rate}", "cluster.network.latency_ms=1"]
BOTH = lambda codec: [f"tables.dense.push.codec={codec}", f"tables.dense.pull.codec={codec}"]
WIDE, NARROW = "[400, 400]", "[64, 32]"
SIZE = 1 if QUICK else 3


def local(steps):
    return [f"tables.dense.mode={{kind: local, steps: {steps}, rounds: sync, inner: {ADAM}}}", "tables.dense.optimizer={kind: sgd, lr: 1}"]


def cluster(workers, servers):
    return [f"cluster.workers={workers}", f"cluster.servers={servers}"]


# name, job, settings
JOBS = [
    ("clicks, 1 worker", clicks(1500000 * SIZE, NARROW), cluster(1, 1)),
    ("clicks, 2 workers, 2 servers", clicks(1500000 * SIZE, NARROW), cluster(2, 2)),
    ("clicks, 4 workers", clicks(1500000 * SIZE, NARROW), cluster(4, 1)),
    ("clicks, 2 workers, 100 Mb/s", clicks(200000 * SIZE, NARROW), cluster(2, 1) + NET("100Mb/s")),
    ("deep clicks, 2 workers, 1 Gb/s", clicks(100000 * SIZE, WIDE), cluster(2, 1) + NET("1Gb/s")),
    ("deep clicks, 2 workers, 2 servers, 100 Mb/s, int8", clicks(30000 * SIZE, WIDE), cluster(2, 2) + NET("100Mb/s") + BOTH("int8")),
    ("deep clicks, 2 workers in step, 1 Gb/s", clicks(60000 * SIZE, WIDE), cluster(2, 1) + NET("1Gb/s") + ["tables.dense.mode.kind=sync"]),
    ("clicks, 3 workers in step, one slow", clicks(120000 * SIZE, NARROW), cluster(3, 1) + SLOW + ["tables.dense.mode.kind=sync"]),
    ("clicks, 4 workers, one slow", clicks(600000 * SIZE, NARROW), cluster(4, 1) + SLOW),
    ("GPT, 1 worker", text(2, 64), cluster(1, 1)),
    ("GPT, 2 workers, 100 Mb/s, int8", text(2, 64), cluster(2, 1) + NET("100Mb/s") + BOTH("int8")),
    ("GPT, 2 workers, 1 Gb/s, rounds of 16", text(2, 64, 3), cluster(2, 1) + NET("1Gb/s") + local(16) + BOTH("int4")),
]


# --- Runs

count = 0


def job_file(job):
    global count
    count += 1
    path = f"{WORK}/job-{count}.yaml"
    with open(path, "w") as f:
        f.write(f"job: job-{count}\nrun_dir: {WORK}/run-{count}\ncluster: {{lease_ms: 3001}}\n{job}")
    return path


def sets(settings):
    return [word for s in settings for word in ("--set", s)]


def weir(*words):
    done = subprocess.run([f"{BUILD}/weir", *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"weir {' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def plan(path, settings, *words):
    return json.loads(weir("plan", path, "--json", *words, *sets(settings)))


def train(path, settings):
    report = path.replace(".yaml", ".json")
    weir("train", path, "--fresh", "--report", report, *sets(settings))
    with open(report) as f:
        return json.load(f)


def off(predicted, measured):
    return abs(predicted / measured - 1)


# --- Predictions

def predictions(chosen):
    """The share by which each prediction is off the mean of a run before it and one after it: a
    machine's speed drifts."""
    errors = []
    for name, job, settings in chosen:
        path = job_file(job)
        before = train(path, settings)["samples_per_s"]
        planned = plan(path, settings)
        written, bill = planned["written"], planned["bill_samples_per_s"]
        measured = (before + train(path, settings)["samples_per_s"]) / 2
        errors.append(off(written["samples_per_s"], measured))
        say(f"{name}: predicted {written['samples_per_s']:.0f}, measured {measured:.0f} samples/s: {100 * errors[-1]:.0f} % off ({written['limit']}); the bill alone {100 * off(bill, measured):.0f} %")
    return errors


# --- Choices

CHOICES = [
    ("deep clicks, 100 Mb/s: codec of pushes", clicks(30000 * SIZE, WIDE), cluster(2, 1) + NET("100Mb/s") + ["cluster.executors=1", "tables.dense.pull.codec=int8"], ["tables.dense.push.codec"]),
    ("clicks: servers and executors", clicks(200000 * SIZE, NARROW), cluster(2, 1), ["cluster.servers"]),
    ("clicks, one of 3 slow: mode", clicks(40000 * SIZE, NARROW), cluster(3, 1) + SLOW + ["cluster.executors=1"], ["tables.dense.mode.kind"]),
    ("GPT, 1 Gb/s: codecs of pulls", text(2, 64), cluster(2, 1) + NET("1Gb/s") + ["cluster.executors=1", "tables.dense.push.codec=int8"], ["tables.dense.pull.codec"]),
]


def candidate(key, value):
    """The settings of one candidate."""
    if key != "tables.dense.mode.kind":
        return [f"{key}={value}"]
    if value.startswith("local"):
        return local(value.split()[-1])
    return ["tables.dense.mode={kind: ssp, bound: 4}"] if value == "ssp" else [f"{key}={value}"]


def median_of(job, settings, runs):
    speeds = sorted(train(job_file(job), settings)["samples_per_s"] for _ in range(runs))
    return speeds[len(speeds) // 2]


def choices(chosen):
    """What share of the best measured value each choice has. Values are samples a second over the
    factor of steps that the planner counts with. The best of many noisy values is too good: it and
    the chosen one are measured anew for the share."""
    shares = []
    for name, job, settings, asks in chosen:
        answer = plan(job_file(job), settings + [f"{key}=auto" for key in asks])
        value_of, tried_of = {}, {}
        keys = answer["space"]["keys"]
        for values in itertools.product(*(k["values"] for k in keys)):
            tried = [s for k, v in zip(keys, values) for s in candidate(k["key"], v)]
            tried_of[values] = settings + tried, steps_of(answer, job, settings + tried)
            value_of[values] = median_of(job, settings + tried, 1 if QUICK else 3) / tried_of[values][1]
        setting = {s["key"]: s["value"] for s in answer["plans"][0]["setting"]}
        chosen_values = tuple(setting[k["key"]] for k in keys)
        best = max(value_of, key=value_of.get)
        anew = {v: median_of(job, tried_of[v][0], 3) / tried_of[v][1] for v in {best, chosen_values}}
        shares.append(anew[chosen_values] / anew[best])
        say(f"{name}: {', '.join(chosen_values)} has {100 * shares[-1]:.0f} % of {', '.join(best)}, the best of {({', '.join(v): round(x) for v, x in value_of.items()})}")
    return shares


def steps_of(answer, job, settings):
    """The planner's factor of steps. It needs no new measurement."""
    with open(f"{WORK}/figures.json", "w") as f:
        json.dump(answer["figures"], f)
    with open(f"{WORK}/machines.yaml", "w") as f:
        f.write(f"{{figures: {WORK}/figures.json, workers: [{{count: 8}}], servers: [{{count: 8}}]}}\n")
    return plan(job_file(job), settings, "--machines", f"{WORK}/machines.yaml")["written"]["steps"]


# --- Sooner

EVALUATED = 4 if QUICK else 8
SOONER = [
    ("deep clicks at 100 Mb/s", clicks(30000 * SIZE, WIDE, 20), cluster(2, 1) + NET("100Mb/s"),
     ["tables.dense.mode.kind", "tables.dense.push.codec", "tables.dense.pull.codec", "tables.embedding.push.codec", "tables.embedding.pull.codec"]),
    ("clicks in step, one of 4 slow", clicks(150000 * SIZE, NARROW, 20, SLOWLY), cluster(4, 1) + SLOW + ["tables.dense.mode.kind=sync"], ["tables.dense.mode.kind"]),
]


def reached(report, goal):
    """When the AUC, on straight lines between the evaluations, is first that of the goal."""
    seconds, auc = 0, 0.5
    for p in report["passes"]:
        if p["auc"] >= goal:
            return seconds + (goal - auc) / (p["auc"] - auc) * (p["seconds"] - seconds)
        seconds, auc = p["seconds"], p["auc"]


def sooner(chosen):
    """How many times sooner the planned job reaches the AUC that both reach. Planning itself, some
    ten seconds, does not count."""
    factors = []
    for name, job, settings, asks in chosen:
        passes = [f"train.passes={EVALUATED}"]
        default = train(job_file(job), settings + passes)
        planned = train(job_file(job), settings + passes + [f"{key}=auto" for key in asks])
        goal = min(max(p["auc"] for p in report["passes"]) for report in (default, planned))
        factors.append(reached(default, goal) / reached(planned, goal))
        say(f"{name}: AUC {goal:.4f} after {reached(default, goal):.1f} s as written, {reached(planned, goal):.1f} s as planned: {factors[-1]:.2f} times sooner")
    return factors


def main():
    parts = sys.argv[4:]  # "predict:3" is the third job alone
    def chosen(name, rows):
        numbers = [int(p.split(":")[1]) for p in parts if p.startswith(name + ":")]
        return [r for i, r in enumerate(rows, 1) if i in numbers or name in parts or not parts]

    # The short form has every third job, and the first two choices.
    errors = sorted(predictions(chosen("predict", JOBS)[:: 3 if QUICK and not parts else 1]))
    shares = choices(chosen("choose", CHOICES)[: 2 if QUICK and not parts else None])
    factors = sooner(chosen("sooner", SOONER))
    within = sum(e <= 0.15 for e in errors)
    good = not parts and (within >= len(errors) * 10 / 12 and errors[-1] <= 0.30 and min(shares) >= 0.9 and min(factors) >= 1.9)
    text = ("predictions within 15 %: {} of {}, the worst {:.0f} % off; choices have at least {:.0f} % of the best; sooner {}".format(
        within, len(errors), 100 * max(errors, default=0), 100 * min(shares, default=1), ", ".join(f"{f:.2f} times" for f in factors)))
    print(("holds: " if good else "parts alone, no verdict: " if parts else "DOES NOT HOLD: ") + text)
    sys.exit(not good)


main()
