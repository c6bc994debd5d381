# 50 kill -9 of Python trainers at random moments, each with two reading processes. The audit says
# missing 0 and double 0, a table that counts each sample's trainings equals the passes in every
# row, and no reading process is left over.
. tests/claims/lib/python.sh
need_package torch
kills=$(pick 8 50)
[ "$QUICK" != 1 ] || echo "QUICK: $kills kills instead of 50"
"$PYTHON" tests/claims/lib/torch_killed.py "$kills" 1 > "$WORK/killed" || { cat "$WORK/killed" >&2; give_up "the run failed"; }
head -n -1 "$WORK/killed"
read -r done_kills missing double wrong left failed <<< "$(tail -n 1 "$WORK/killed")"
verdict "$done_kills == $kills and [$missing, $double, $wrong, $left, $failed] == [0] * 5" \
	"$done_kills kills: missing $missing, double $double, $wrong rows with another count, $left processes left over"
