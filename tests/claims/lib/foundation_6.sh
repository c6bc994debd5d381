# weir bench relative to this machine's limits, with the targets of the foundation.
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
# ps-lite relative to raw loopback on the machine of FACTS: 64 KiB, 1, 4, 16 MiB over 5.0 GB/s raw.
peer = {"push": {"64 KiB": 2.4, "1 MiB": 5.6, "4 MiB": 4.5, "16 MiB": 4.0}, "pull": {"1 MiB": 3.9, "4 MiB": 3.75, "16 MiB": 2.5}}
push, discard, pull = results["push"], results["discard"], results["pull"]
# The measurement, its row, the figure and the target.
checks = [(what, row, row["ratio"], least) for what, row, least in [
    ("push of 1 MiB, applied, >= 75 % of raw TCP", push["push 1 MiB, applied"], 0.75),
    ("push of 1 MiB, discarded, >= 95 % of raw TCP", discard["push 1 MiB, discarded"], 0.95),
    ("pull of 1 MiB >= 80 % of raw TCP", pull["pull 1 MiB"], 0.80),
    ("store look-up >= 80 % of a bare gather", results["store"]["store look-up"], 0.80),
]]
checks += [(what, row, row["value"], least) for what, row, least in [
    ("256-byte pulls, 32 in flight, >= 120k/s", pull["pull 256 B, 32 in flight"], 120e3),
    ("pull of 4,096 rows of dim 16 >= 5 M rows/s per core", pull["the same per core used"], 5e6),
    ("loader >= 500 MB/s of text", results["loader"]["loader"], 500e6),
]]
against_peer = [(f"push of {s}, discarded, not behind ps-lite", discard, f"push {s}, discarded", g / 5.0) for s, g in peer["push"].items()]
against_peer += [(f"pull of {s} not behind ps-lite", pull, f"pull {s}", g / 5.0) for s, g in peer["pull"].items()]
checks += [(what, rows[name], rows[name]["ratio"], least) for what, rows, name, least in against_peer]
print()
failed = 0
for what, row, value, least in checks:
    failed += value < least
    print(f'{"holds" if value >= least else "DOES NOT HOLD"}: {what} ({value:.4g}, target {least:.4g})')
    if value < least and "floor" in row:  # what gRPC alone reaches with the same messages and work
        floor = {**push, **discard, **pull}[row["floor"]]
        print(f'    {row["floor"]}: {floor["ratio"]:.2f} of {floor["limit"]}; ours is {row["floor_ratio"]:.2f} of that')
sys.exit(failed > 0)
PY
