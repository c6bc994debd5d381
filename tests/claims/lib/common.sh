# Shared by the claims: builds programs, works in a temporary folder, and ends all processes at
# exit.
set -u
ROOT=$PWD
BUILD=${BUILD:-$ROOT/build}
QUICK=${QUICK:-0}
WORK=$(mktemp -d /tmp/weir-claim-XXXXXX)
trap 'rm -rf "$WORK"' EXIT
export WEIR_DATA=${WEIR_DATA:-$ROOT/../shared/data}
. tests/claims/lib/needs.sh

say() { echo "$*" >&2; }
give_up() { say "$*"; exit 1; }
pick() { if [ "$QUICK" = 1 ]; then echo "$1"; else echo "$2"; fi; } # pick QUICK FULL

need_programs() {
	make -s programs >&2 || give_up "the programs do not build"
}
need_built() { # need_built PRESET FOLDER TARGET...
	cmake --preset "$1" > "$WORK/cmake.log" 2>&1 || { cat "$WORK/cmake.log" >&2; give_up "the preset $1 cannot be configured"; }
	cmake --build "$2" --target "${@:3}" >&2 || give_up "the tests do not build with the preset $1"
}
need_tests() { need_built release "$BUILD" "$@"; } # need_tests TARGET...

# train NAME JOB [ARGUMENTS...]: leaves $WORK/NAME.json and removes the run directory. LIMIT_S:
# stops it after this many seconds; it then reports the passes that ended.
train() {
	local name=$1 job=$2
	shift 2
	timeout "${LIMIT_S:-0}" "$BUILD/weir" train "$job" --report "$WORK/$name.json" --set "job=$name" --set "run_dir=$WORK/$name" "$@" > "$WORK/$name.out" 2> "$WORK/$name.err" ||
		{ [ $? = 124 ] && [ -s "$WORK/$name.json" ]; } || { cat "$WORK/$name.out" "$WORK/$name.err" >&2; give_up "weir train $name failed"; }
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
	local until=$((SECONDS + $1)) what=$2
	shift 2
	until "$@"; do
		[ $SECONDS -lt $until ] || give_up "waited too long for $what"
		sleep 0.05
	done
}

# figure FILE PATH: a number of a JSON report, such as test.auc
figure() { python3 -c 'import json, sys, functools; print(functools.reduce(lambda d, k: d[k], sys.argv[2].split("."), json.load(open(sys.argv[1]))))' "$1" "$2"; }
# true_that EXPRESSION: arithmetic on numbers
true_that() { python3 -c 'import sys; sys.exit(not eval(sys.argv[1]))' "$1"; }
mean() { python3 -c 'import sys; x = [float(v) for v in sys.argv[1:]]; print(f"{sum(x) / len(x):.5f}")' "$@"; }
# verdict EXPRESSION TEXT: prints the last line.
verdict() {
	if true_that "$1"; then echo "holds: $2"; exit 0; fi
	echo "DOES NOT HOLD: $2"
	exit 1
}

# Adam at the workers, whose steps are pushed as top-k 1 % with log4 values; embedding rows as int8.
CODED=(--set 'tables.dense.mode={kind: local, steps: 1, rounds: async, inner: {kind: adam, lr: 1.0e-3, schedule: {kind: cosine}}}'
	--set 'tables.dense.optimizer={kind: sgd, lr: 1, schedule: {kind: constant}}'
	--set 'tables.dense.push={codec: topk, density: 0.01, values: log4}' --set 'tables.embedding.push={codec: int8}')
# config/frappe-deep.yaml without compression: Adam at the servers, fp32 both ways.
deep_fp32_job() {
	sed -e '/^    \(mode\|push\|pull\):/d' -e '/Workers take/d' -e 's/{kind: sgd, lr: 1}/{kind: adam, lr: 1.0e-3, schedule: {kind: cosine}}/' config/frappe-deep.yaml > "$WORK/deep-fp32.yaml"
}

# click_job ROWS [PASSES]: a generated click job of moderate size, for claims that compare final
# models. The rates end at 0, which keeps the noise of the last batches out of the comparison.
click_job() {
	cat > "$WORK/click.yaml" <<-JOB
		job: click
		cluster: {servers: 2, workers: 2, partitions: 16, lease_ms: 3001}
		data:
		  generate: {rows: $1, ids: 100000, seed: 11}
		  batch: 512
		  unit_batches: 8
		  seed: 1
		model: {kind: deepfm, dim: 8, hidden: [64, 32]}
		tables:
		  embedding: {optimizer: {kind: adam, lr: 2.0e-3, schedule: {kind: cosine}}}
		  dense: {optimizer: {kind: adam, lr: 1.0e-3, schedule: {kind: cosine}}}
		train: {passes: ${2:-1}, seed: 1}
	JOB
}
# Settings for claims that compare AUCs: further steps gain little. Two asynchronous runs of one
# seed differ by the staleness of their pushes. The standard deviation of the AUC is .0018 with
# 500,000 rows, two passes and batches of 512. With 600,000 rows, three passes and these batches it
# is .0007 on a quiet machine, and .001 at a load of 15.
CONVERGED=(--set data.batch=256 --set data.unit_batches=16)
# All runs of a claim use the same rows: generated once, then named as a file.
click_data() {
	"$BUILD/weir" train "$WORK/click.yaml" --set "run_dir=$WORK/data" --report "$WORK/data.json" > /dev/null 2> "$WORK/data.err" ||
		{ cat "$WORK/data.err" >&2; give_up "the first run failed"; }
	SAME_DATA=(--set data.generate.rows=0 --set "data.train=$WORK/data/generated.tsv" --set data.split.by=crc32 --set "data.cache=$WORK/data/cache")
}

# deepfm_job ROWS CLUSTER: the DeepFM job of the claims about durability. CLUSTER is ", key:
# value..." after its own cluster keys.
deepfm_job() {
	cat > "$WORK/deepfm.yaml" <<-JOB
		job: deepfm
		cluster: {servers: 1, workers: 1, partitions: 16$2}
		data: {generate: {rows: $1, ids: 1000000, seed: 2}, batch: 2048, unit_batches: 16, seed: 1}
		model: {kind: deepfm, dim: 16, hidden: [400, 400, 400]}
		tables:
		  embedding: {optimizer: {kind: adagrad, lr: 1.0e-2}}
		  dense: {optimizer: {kind: adam, lr: 1.0e-3}}
		train: {passes: 1, seed: 1}
	JOB
}
