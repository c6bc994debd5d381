# Rehearses tests/bench/gpu/run.sh on the emulated device. Each mode runs to its end and has its
# figures; a mode killed halfway leaves what it had measured. MODES selects some. `make test`, which
# runs a part of each test, runs the first.
. "$(dirname "$0")/lib.sh"
[ -e "$BUILD/tests/emulated/libweir_cuda.so" ] && [ -e "$BUILD/tests/gpu_tests" ] || { echo "no emulated device, or a sanitizer, with which there is no kit: skipped"; exit 77; }
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L > /dev/null 2>&1; then
	"$ROOT/tests/bench/gpu/run.sh" truth > "$DIR/no-gpu.out" 2> "$DIR/no-gpu.err"
	[ $? = 77 ] || fail "without a GPU its exit status is not 77"
	told "there is no GPU here" "$DIR/no-gpu.err"
fi

mkdir "$DIR/tmp"
export WEIR_GPU=emulated TMPDIR=$DIR/tmp
KIT=$DIR/kit BUILD=$BUILD "$ROOT/scripts/gpu_kit.sh" > "$DIR/kit.err" 2>&1 || fail "no kit was made"
SCRIPT=$DIR/kit/gpu/run.sh
# Stand-ins for two GPU tools exercise the steps that call them. The first runs the program, the
# second prints ncu's output.
mkdir "$DIR/tools"
cat > "$DIR/tools/compute-sanitizer" <<-'TOOL'
	#!/bin/bash
	while [[ $1 == --* ]]; do case $1 in --report-api-errors | --tool | --error-exitcode | --print-limit) shift 2 ;; *) exit 2 ;; esac done
	exec "$@"
TOOL
cat > "$DIR/tools/ncu" <<-'TOOL'
	#!/bin/bash
	while [[ $1 == --* ]]; do
		case $1 in --csv) shift ;; --kernel-name) kernel=$2; shift 2 ;; --clock-control | --launch-skip | --launch-count | --kill | --metrics) shift 2 ;; *) exit 2 ;; esac
	done
	[ -x "$1" ] || exit 2
	printf '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","%s(float *, int)","gpu__time_duration.sum","us","1,234"\n' "$kernel"
TOOL
chmod +x "$DIR/tools"/*
export PATH=$DIR/tools:$PATH KERNELS=topk_tile_kernel KERNELS_TEXT=tensor_attention_kernel

run_mode() { # run_mode MODE OUT
	AFTER=$DIR/failures.txt OUT=$2 LIMIT_S=600 "$SCRIPT" "$1" > "$DIR/$1.err" 2>&1
}
lines() { cat "$1" 2> /dev/null | wc -l; }
had() { [ "$(lines "$1")" -ge "$2" ]; } # had FILE LINES
of_session() { ps -o pid= -s "$1"; }

# whole MODE STEP...: these steps succeeded, and the table has the mode's figures.
whole() {
	local mode=$1 step
	shift
	run_mode "$mode" "$DIR/$mode"
	[ $? = 0 ] || { cat "$DIR/$mode/log.txt"; fail "$mode: its exit status is not 0"; }
	for step; do grep -q "^$step .* ok$" "$DIR/$mode/steps.txt" || { cat "$DIR/$mode/log.txt"; fail "$mode: $step did not go well"; }; done
	[ "$(ls "$DIR/$mode" | wc -l)" -le 8 ] || fail "$mode leaves more than eight files"
}
# killed MODE FILE LINES LAST: killed as soon as FILE has LINES lines. The written lines are in the
# file and in its table, and the step LAST has not ended.
killed() {
	local mode=$1 out=$DIR/$1-killed file=$DIR/$1-killed/$2 p
	setsid bash -c 'AFTER=$1 OUT=$2 LIMIT_S=600 exec "$3" "$4"' rehearsal "$DIR/failures.txt" "$out" "$SCRIPT" "$mode" > "$DIR/$mode-killed.err" 2>&1 &
	local session=$!
	disown $session # the shell would report its end
	wait_for 30 "$mode to write $2" had "$file" "$3"
	local folders # left by the killed weir bench
	folders=$(for p in $(of_session $session); do command_line "$p"; done | grep -o '/tmp/weir-\(bench\|scratch\)-[A-Za-z0-9]*' | sort -u)
	while [ -n "$(of_session $session)" ]; do for p in $(of_session $session); do kill -KILL "$p" 2> /dev/null; done; done
	[ -z "$folders" ] || rm -rf $folders
	had "$file" "$3" || fail "$mode: killed, and $2 has lost lines"
	! grep -q "^$4 " "$out/steps.txt" || fail "$mode was not killed halfway"
	grep -q '^machine ' "$out/steps.txt" || fail "$mode: killed, and the steps that ended are not told"
	"$SCRIPT" table "$out" > "$DIR/$mode-killed.table" || fail "$mode: no table of what was left"
	[ "$(lines "$DIR/$mode-killed.table")" -gt "$(lines "$out/steps.txt")" ] || fail "$mode: the table of what was left has no figures"
	echo "$mode: killed after $(lines "$file") of $(lines "$DIR/$mode/$2") lines of $2, which are there; whole: $(lines "$DIR/$mode/steps.txt") steps"
}
# A failed test is named with its numbers, for `why`, and stops no other step. The exit status
# reports it.
a_failure_stops_nothing() {
	printf '#!/bin/sh\nexit 1\n' > "$DIR/kit/tests/test_reruns"
	run_mode confirm "$DIR/failed"
	[ $? = 1 ] || fail "a test failed, and the exit status is not 1"
	grep -q '^tests .* FAILED' "$DIR/failed/steps.txt" && grep -q '^gpt2 .* ok$' "$DIR/failed/steps.txt" || fail "a test failed: $(cat "$DIR/failed/steps.txt")"
	grep -qx 'plain reruns [0-9]*' "$DIR/failed/failures.txt" || fail "what failed is not in failures.txt"
	cmp -s "$DIR/failed/failures.txt" "$DIR/kit/gpu-out/failures.txt" || fail "the failures are not where why looks for them"
}
in_table() { grep -q "$2" "$DIR/$1/table.txt" || { cat "$DIR/$1/table.txt"; fail "the table of $1 has no '$2'"; }; }

[ -z "${WEIR_ROUNDS_PART:-}" ] || MODES=${MODES:-truth}
printf 'plain reruns 7\n' > "$DIR/failures.txt"
for mode in ${MODES:-truth why peers confirm}; do
	case $mode in
	truth)
		whole truth machine copies tests sanitizer bench-check gpt2
		in_table truth '^copy, pinned to device .* of a copy\|^copy, pinned to device'
		in_table truth '^top-k 1 % int8 '
		in_table truth 'tokens/s, the median of 5 steps'
		killed truth bench.tsv 3 gpt2
		;;
	why)
		whole why machine again ncu ab
		in_table why '^topk_tile_kernel: gpu__time_duration 1,234 us'
		in_table why 'us, the other .* us: '
		killed why ab-a.tsv 1 ab
		;;
	peers)
		whole peers machine step-fp32 step-tf32 gpt2 same-auc
		in_table peers '^pull, step, push  *[1-9].* samples/s'
		in_table peers 'tokens/s, the median of 20 steps'
		in_table peers '^AUC .* on the device'
		killed peers step-fp32.tsv 2 same-auc
		;;
	confirm)
		whole confirm machine bench-check tests step-fp32 gpt2
		in_table confirm '^int8 with feedback '
		killed confirm bench.tsv 1 gpt2
		a_failure_stops_nothing
		;;
	esac
done
nothing_left
