# At 100 Mb/s a job with compression reaches a fixed AUC at least five times as soon. DeepFM on
# Frappe with five layers of 1,000 (config/frappe-deep.yaml), two servers and two workers, each
# process behind a simulated card of 100 Mb/s and 1 ms (cluster.network). The compression is that of
# the file. The baseline is the same job with fp32 gradients and values, asynchronous or
# synchronous, whichever is faster. The synchronous run is stopped once it cannot be the faster one.
. tests/claims/lib/common.sh
need_programs
need_data frappe/frappe.libfm
goal=$(pick 0.88 0.93) passes=$(pick 1 3) batch=$(pick 256 128)
[ "$QUICK" = 1 ] && echo "QUICK: AUC 0.88 within a pass of batches of 256 instead of 0.93 within 3 of 128, no synchronous run"
deep_fp32_job
# The first evaluated pass that reaches the AUC: prints its end, in seconds since the workers'
# start, and the bytes until then.
reached() { # reached FILE
	python3 - "$1" "$goal" <<-'PY'
		import json, sys
		report = json.load(open(sys.argv[1]))
		for p in report["passes"]:
		    if p["auc"] >= float(sys.argv[2]):
		        print(f'{p["seconds"]:.1f} {(p["bytes_pushed"] + p["bytes_pulled"]) / 1e6:.1f} {p["pass"]} {p["auc"]:.4f}')
		        break
		else:
		    print(f'inf inf {len(report["passes"])} {max((p["auc"] for p in report["passes"]), default=0):.4f}')
	PY
}
run() { # run NAME JOB [ARGUMENTS...]: sets `seconds`
	local name=$1 job=$2 megabytes pass auc
	shift 2
	train "$name" "$job" --set "train.passes=$passes" --set "data.batch=$batch" --set cluster.network.rate=100Mb/s --set cluster.network.latency_ms=1 "$@"
	read -r seconds megabytes pass auc < <(reached "$WORK/$name.json")
	echo "$name: validation AUC $auc after $pass passes, $seconds s, $megabytes MB pushed and pulled"
}
run compressed config/frappe-deep.yaml
compressed=$seconds
run fp32_asynchronous "$WORK/deep-fp32.yaml"
plain=$seconds
if [ "$QUICK" != 1 ]; then
	# Plus time to start.
	[ "$plain" = inf ] || LIMIT_S=$(python3 -c "print(int(float('$plain')) + 60)")
	run fp32_synchronous "$WORK/deep-fp32.yaml" --set tables.embedding.mode.kind=sync --set tables.dense.mode.kind=sync
	plain=$(python3 -c "print(min(float('$plain'), float('$seconds')))")
fi
sooner=$(python3 -c "print(f'{float(\"$plain\") / float(\"$compressed\"):.2f}')")
echo "AUC $goal after $compressed s, without compression after $plain s: $sooner times as soon"
verdict "$sooner >= 5" "at 100 Mb/s a fixed AUC is reached at least five times as soon"
