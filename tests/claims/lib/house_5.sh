# `make check` ends within two minutes on two processors with a warm compiler cache, from a tree
# without a build. Every test from before the move into rooms still exists by name
# (tests/claims/house_tests.txt). QUICK=1: `make check` in this tree, on top of its build.
. tests/claims/lib/common.sh
LIMIT=120
LIST=tests/claims/house_tests.txt

# --- No test is lost. Configures anew, as `make test` does: this tree's build may have other
# options.
cmake --preset release -B "$WORK/list" > "$WORK/cmake.log" 2>&1 || { cat "$WORK/cmake.log" >&2; give_up "the preset release cannot be configured"; }
ctest --test-dir "$WORK/list" -N | sed -n 's/^ *Test *#[0-9]*: //p' | sort > "$WORK/now"
# Lines are "NAME" or "NAME NEW-NAME", followed by "[nvcc]" if the test needs it.
nvcc=$([ -x "$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc)" ] && echo yes || echo no)
awk -v nvcc="$nvcc" '/^#/ || !NF { next } $NF == "[nvcc]" { if (nvcc == "no") next; $NF = ""; NF-- } { print $NF }' "$LIST" | sort > "$WORK/before"
lost=$(comm -23 "$WORK/before" "$WORK/now")
[ -z "$lost" ] || say "no longer a test: $(xargs <<< "$lost")"
echo "tests: $(wc -l < "$WORK/before") before, $(wc -l < "$WORK/now") now, $(grep -c . <<< "$lost") lost, $(comm -13 "$WORK/before" "$WORK/now" | wc -l) new"

# --- make check
tree=$ROOT
if [ "$QUICK" = 1 ]; then
	echo "QUICK=1: make check runs in this tree, on top of what is built"
else
	git clone -q "$ROOT" "$WORK/tree" || give_up "this tree cannot be cloned"
	tree=$WORK/tree
	make -s -C "$tree" check > "$WORK/first" 2>&1 || { tail -n 50 "$WORK/first" >&2; give_up "make check fails in a clone"; }
	echo "with what the compiler cache had before: $(tail -n 1 "$WORK/first")"
	rm -rf "$tree/build"
fi
two=()
[ "$(nproc)" -le 2 ] || two=(taskset -c 0,1)
load=$(cut -d ' ' -f 1 /proc/loadavg)
TIMEFORMAT='%R %U %S'
{ time "${two[@]}" make -s -C "$tree" check JOBS=2 > "$WORK/check" 2>&1; } 2> "$WORK/time" || { tail -n 50 "$WORK/check" >&2; give_up "make check fails"; }
read -r seconds user system <<< "$(tail -n 1 "$WORK/time")"
said=$(tail -n 1 "$WORK/check")
count=$(sed -n 's/^check: \([0-9]*\) unit tests passed.*/\1/p' <<< "$said")
echo "make check: $seconds s, of processors $user + $system s; load $load before. It says '$said'"
figure=$seconds
if true_that "$load > 1 and $seconds > $LIMIT"; then
	figure=$(awk "BEGIN { print ($user + $system) / 2 }")
	echo "others use the processors: half of the processor time counts, $figure s"
fi
verdict "$(grep -c . <<< "$lost") == 0 and ${count:-0} >= 200 and $figure <= $LIMIT" \
	"make check: ${count:-no} unit tests in $figure s (at most $LIMIT); $(grep -c . <<< "$lost") tests lost"
