# Searches on a generated click job, whose synthetic model is known, and on Frappe:
#   - TPE with ASHA reaches the best validation AUC of the full grid with at most a quarter of the
#     grid's batches, with each of three seeds of the search
#   - a population ends at least as high as the best of the constant rates, which are as many and of
#     the same range, with each seed. The embeddings of the generated job have SGD: with Adam every
#     rate overfits in the end, and the lowest least. A pass of Frappe has four times the batches, so
#     that its populations decide after each
#   - kills: tests/integration/search.sh
# QUICK=1: the generated job alone, one seed.
. tests/claims/lib/common.sh
SEEDS=$(pick 1 3)
PASSES=4 RATE_PASSES=9 # of a trial: of the search, of the population
ROWS=$(pick 50000 100000) RATE_ROWS=$(pick 30000 60000)
need_programs

job() { # job NAME OPTIMIZER PASSES DATA: one synchronous worker, so that a trial repeats itself
	cat > "$WORK/$1.yaml" <<-JOB
		job: $1
		cluster: {servers: 1, workers: 1, partitions: 4, lease_ms: 3001}
		data: {$4, batch: 512, unit_batches: 8, shuffle: true, seed: 1}
		model: {kind: deepfm, dim: 8, hidden: [32]}
		tables:
		  embedding: {optimizer: {kind: $2}, mode: {kind: sync}}
		  dense: {optimizer: {kind: adam}, mode: {kind: sync}}
		train: {passes: $3, seed: 1, keep_best: false}
	JOB
}

# search NAME JOB SEARCH SPACE...: leaves $WORK/NAME/results.json.
search() {
	local name=$1 job=$2 search=$3
	shift 3
	{
		printf 'base: %s\nout: %s\nsearch: {metric: valid.auc, %s}\nspace:\n' "$WORK/$job.yaml" "$WORK/$name" "$search"
		printf '  %s\n' "$@"
	} > "$WORK/$name.yaml"
	"$BUILD/weir" sweep "$WORK/$name.yaml" > "$WORK/$name.out" 2> "$WORK/$name.err" || { tail -n 5 "$WORK/$name.err" >&2; give_up "weir sweep $name failed"; }
	rm -rf "$WORK/$name"/slot-*
}
# best NAME [PASS]: the best AUC of any trial, after that pass alone if it is given.
best() { jq --argjson pass "${2:-0}" '[.trials[].passes[] | select($pass == 0 or .pass == $pass) | .measures[0].value] | max' "$WORK/$1/results.json"; }
spent() { jq .spent.samples "$WORK/$1/results.json"; }

# A grid as people write it: two rates, and two sizes that matter less.
CHOICES=('model.dim: [4, 8]' "model.hidden: ['[32]', '[32, 16]']")
lines=() good=1
compare() { # compare JOB
	local grid share seed name reached spent least=1 most=0
	search "$1-grid" "$1" 'kind: grid, parallel: 2' 'tables.embedding.optimizer.lr: [3.0e-3, 1.0e-2, 3.0e-2, 1.0e-1, 3.0e-1, 1.0]' \
		'tables.dense.optimizer.lr: [3.0e-4, 1.0e-3, 3.0e-3, 1.0e-2, 3.0e-2]' "${CHOICES[@]}"
	grid=$(best "$1-grid" $PASSES)
	# a segment of a trial that runs when the budget is spent still ends: half of the passes
	share=$(jq '.spent.samples as $all | (.trials | length) as $n | $all / 4 - $all / $n / 2' "$WORK/$1-grid/results.json")
	for seed in $(seq "$SEEDS"); do
		name=$1-tpe-$seed
		search "$name" "$1" "kind: tpe, seed: $seed, trials: 400, stop: {kind: asha, first: 1, eta: 2}, budget: {samples: $share}" \
			'tables.embedding.optimizer.lr: {min: 3.0e-3, max: 1.0, log: true}' 'tables.dense.optimizer.lr: {min: 3.0e-4, max: 3.0e-2, log: true}' "${CHOICES[@]}"
		reached=$(best "$name")
		spent=$(jq -n "$(spent "$name") / $(spent "$1-grid")")
		say "$1: grid $grid; TPE and ASHA, seed $seed: $reached with $spent of its batches"
		true_that "$reached >= $grid and $spent <= 0.25" || good=0
		true_that "$reached < $least" && least=$reached
		true_that "$spent > $most" && most=$spent
	done
	lines+=("$(printf '%s: the grid %.4f; TPE and ASHA at least %.4f with at most %.2f of its batches' "$1" "$grid" "$least" "$most")")
}

schedule() { # schedule JOB EVERY RATE...: constant rates, and populations between the first and the last
	local job=$1 every=$2 constant population seed least=1
	shift 2
	search "$job-rates" "$job" 'kind: grid' "tables.embedding.optimizer.lr: [$(IFS=, && echo "$*")]"
	constant=$(best "$job-rates" $RATE_PASSES)
	for seed in $(seq "$SEEDS"); do
		search "$job-pbt-$seed" "$job" "kind: pbt, seed: $seed, trials: $#, every: $every, quantile: 0.34" \
			"tables.embedding.optimizer.lr: {min: $1, max: ${!#}, log: true}"
		population=$(best "$job-pbt-$seed" $RATE_PASSES)
		say "$job: the best constant rate $constant, a population of as many trials, seed $seed: $population"
		true_that "$population >= $constant" || good=0
		true_that "$population < $least" && least=$population
	done
	lines+=("$(printf '%s: the best constant rate %.4f, populations at least %.4f' "$job" "$constant" "$least")")
}

CLICKS="seed: 11}, split: {by: crc32, train: 80, valid: 20, test: 0}"
job clicks adagrad $PASSES "generate: {rows: $ROWS, ids: 16000, $CLICKS"
job clicks-rates sgd $RATE_PASSES "generate: {rows: $RATE_ROWS, ids: 20000, $CLICKS"
compare clicks
schedule clicks-rates 2 0.1 0.2 0.4 0.8 1.6 3.2
if [ "$QUICK" = 1 ]; then
	say "QUICK=1: no Frappe, one seed, fewer rows"
elif [ -s "$WEIR_DATA/frappe/frappe.libfm" ]; then
	FRAPPE="format: libsvm, train: '$WEIR_DATA/frappe/frappe.libfm', fields: 10, split: {by: crc32, train: 80, valid: 20, test: 0}"
	job frappe adagrad $PASSES "$FRAPPE"
	job frappe-rates adam $RATE_PASSES "$FRAPPE"
	compare frappe
	schedule frappe-rates 1 1.0e-3 3.0e-3 1.0e-2 3.0e-2 1.0e-1 3.0e-1
else
	say "$WEIR_DATA/frappe/frappe.libfm is missing: Frappe is left out"
fi
bash tests/integration/search.sh "$BUILD" > "$WORK/kills.out" 2>&1 || { tail -n 20 "$WORK/kills.out" >&2; good=0; }
verdict "$good" "$(printf '%s. ' "${lines[@]}")Killed three times, the table is the same; in parallel each trial once"
