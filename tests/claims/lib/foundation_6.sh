# weir bench against this machine's own limits, with the targets of the foundation.
. tests/claims/lib/common.sh
need_programs
quick=$(pick --quick "")
for b in push pull store optim gemm loader; do
	"$BUILD/weir" bench $b --json $quick > "$WORK/$b.json" || give_up "weir bench $b failed"
done
"$BUILD/weir" bench push --no-apply --json $quick > "$WORK/discard.json" || give_up "weir bench push --no-apply failed"
python3 - "$WORK" <<'PY'
import json, sys
load = lambda name: {r["name"]: r for r in json.load(open(f"{sys.argv[1]}/{name}.json"))["results"]}
results = {n: load(n) for n in ("push", "discard", "pull", "store", "optim", "gemm", "loader")}
for name, rows in results.items():
    for r in rows.values():
        print(f'{name:8} {r["name"]:44} {r["value"]:14.5g} {r["unit"]:12}' + (f' {r["ratio"]:.2f} of {r["limit"]}' if "limit" in r else ""))
# ps-lite against raw loopback on the machine of FACTS: 64 KiB, 1, 4, 16 MiB over 5.0 GB/s raw.
peer = {"push": {"64 KiB": 2.4, "1 MiB": 5.6, "4 MiB": 4.5, "16 MiB": 4.0}, "pull": {"1 MiB": 3.9, "4 MiB": 3.75, "16 MiB": 2.5}}
checks = [
    ("push of 1 MiB, applied, >= 75 % of raw TCP", results["push"]["push 1 MiB, applied"]["ratio"], 0.75),
    ("push of 1 MiB, discarded, >= 95 % of raw TCP", results["discard"]["push 1 MiB, discarded"]["ratio"], 0.95),
    ("pull of 1 MiB >= 80 % of raw TCP", results["pull"]["pull 1 MiB"]["ratio"], 0.80),
    ("256-byte pulls, 32 in flight, >= 120k/s", results["pull"]["pull 256 B, 32 in flight"]["value"], 120e3),
    ("store look-up >= 80 % of a bare gather", results["store"]["store look-up"]["ratio"], 0.80),
    ("pull of 4,096 rows of dim 16 >= 5 M rows/s per core", results["pull"]["the same per core used"]["value"], 5e6),
    ("loader >= 500 MB/s of text", results["loader"]["loader"]["value"], 500e6),
]
checks += [(f"push of {s}, discarded, not behind ps-lite", results["discard"][f"push {s}, discarded"]["ratio"], g / 5.0) for s, g in peer["push"].items()]
checks += [(f"pull of {s} not behind ps-lite", results["pull"][f"pull {s}"]["ratio"], g / 5.0) for s, g in peer["pull"].items()]
print()
failed = 0
for what, value, least in checks:
    failed += value < least
    print(f'{"holds" if value >= least else "DOES NOT HOLD"}: {what} ({value:.4g}, target {least:.4g})')
sys.exit(failed > 0)
PY
