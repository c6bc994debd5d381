# DIN, MMoE and the two towers beside the same models in PyTorch, on generated data with a planted
# structure: the mean AUC (recall@50) of three seeds within 0.002, and the gradients of a batch within
# 1e-3 of their norm. QUICK=1: one seed.
. tests/claims/lib/common.sh
WITHIN=0.002
SEEDS=$(pick 1 3)
need_python numpy torch
need_programs
declare -A FIGURES=([din]=".test.auc" [mmoe]=".test.tasks[].auc" [two_tower]=".test.at[0].recall")
declare -A FIELDS=([din]="user item category" [mmoe]="user item place" [two_tower]="user group item category")

# Exports the weights of a run, and the embeddings of each field with their ids.
export_all() { # KIND JOB WHEN
	local same=(--set "job=$1-$3" --set "run_dir=$WORK/$1-$3") field
	"$BUILD/weir" export "$2" "${same[@]}" --out "$DIR/$3.safetensors" > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "weir export of $1"; }
	for field in ${FIELDS[$1]}; do
		"$BUILD/weir" export "$2" "${same[@]}" --ids "$field" --out "$DIR/$3.$field.csv" > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "weir export --ids $field of $1"; }
	done
}

lines=() good=1
for kind in din mmoe two_tower; do
	DIR=$WORK/data-$kind
	mkdir "$DIR"
	"$PYTHON" tests/parity/columns.py generate $kind "$DIR" || give_up "no data for $kind"
	runs=()
	for seed in $(seq "$SEEDS"); do
		train "$kind-before" "$DIR/job.yaml" --set "train.seed=$seed" --set "data.seed=$seed" --fresh
		runs+=("$(jq -c "[${FIGURES[$kind]}]" "$WORK/$kind-before.json")")
	done
	export_all $kind "$DIR/job.yaml" before
	train "$kind-after" "$DIR/batch.yaml"
	export_all $kind "$DIR/batch.yaml" after
	said=$("$PYTHON" tests/parity/columns.py gradients $kind "$DIR") || good=0
	say "$said"
	twin=$("$PYTHON" tests/parity/columns.py twin $kind "$DIR" --seeds "$SEEDS") || give_up "the twin of $kind failed"
	line=$(jq -rn --argjson twin "$twin" --argjson runs "[$(IFS=,; echo "${runs[*]}")]" --arg kind $kind '
		($runs | transpose | map(add / length)) as $ours | ($twin.mean) as $theirs
		| [range($ours | length) | {ours: $ours[.], theirs: $theirs[.], apart: ($ours[.] - $theirs[.] | fabs)}]
		| "\(map(.apart) | max) \($kind): " + (map("\(.ours * 1e4 | round / 1e4), PyTorch \(.theirs * 1e4 | round / 1e4)") | join("; "))')
	say "${line#* } (the largest difference is ${line%% *})"
	true_that "${line%% *} <= $WITHIN" || good=0
	lines+=("${line#* }")
done
verdict "$good" "$(printf '%s. ' "${lines[@]}")Within $WITHIN over $SEEDS seeds; gradients within 1e-3"
