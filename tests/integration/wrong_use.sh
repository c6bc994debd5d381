# Verbs, options and keys that are not there: status 2 or 1, the word, and the nearest one.
. "$(dirname "$0")/lib.sh"
write_job 1
expect() { # expect STATUS TEXT ARGUMENTS...
	local status=$1 text=$2
	shift 2
	"$WEIR" "$@" > "$DIR/out" 2> "$DIR/use.err" < /dev/null
	local got=$?
	[ $got = "$status" ] || fail "weir $*: exit status $got, not $status"
	grep -qF -- "$text" "$DIR/use.err" "$DIR/out" || fail "weir $*: does not say '$text': $(cat "$DIR/use.err")"
}
expect 0 "usage: weir" help
expect 0 "weir 0." version
expect 0 "usage: weir train JOB.yaml" train --help
expect 0 "usage: weir eval" eval "$DIR/job.yaml" -h
expect 2 "did you mean 'train'" tarin
for verb in train eval "predict --out x" "export --out x" "import --in x" "restore --from latest"; do
	expect 2 "needs a job file: JOB.yaml or --job JOB.yaml" $verb
done
expect 2 "expected valid or test" eval "$DIR/job.yaml" --part train
expect 2 "give one of them" train "$DIR/job.yaml" --resume --fresh
expect 2 "did you mean '--report'" train --repotr x
expect 2 "--job FILE or --at ADDRESS" status
expect 2 "did you mean store" bench stoer
expect 2 "--rows is 'many'" datagen --rows many --out x
expect 1 "hiden" train "$DIR/job.yaml" --set model.hiden=3
expect 1 "does not run here" status --job "$DIR/job.yaml"
expect 1 "nothing.yaml" train "$DIR/nothing.yaml"
expect 2 "PARTITION is a number, from 0 on, or ledger, not 'first'" move first 1 "$DIR/job.yaml"
expect 2 "SERVER is a number, from 0 on, not 'ledger'" move ledger ledger "$DIR/job.yaml"
