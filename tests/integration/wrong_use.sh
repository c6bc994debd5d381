# Unknown verbs, options and keys: status 2 or 1, the word, and the nearest valid one.
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
for words in "help --help" "help -h" "help help" "--help --help"; do
	expect 0 "usage: weir VERB" $words
done
# An output that cannot be written is named as given.
echo text > "$DIR/in.txt"
expect 1 "weir datagen: cannot create $DIR/none/x: No such file" datagen --rows 100 --out "$DIR/none/x"
expect 1 "weir tokenize: cannot create $DIR/none/x: No such file" tokenize --tokenizer bytes --in "$DIR/in.txt" --out "$DIR/none/x"
ln -s in.txt "$DIR/link.txt"
expect 1 "$DIR/link.txt is a file to tokenize, which would be lost" tokenize --tokenizer bytes --in "$DIR/in.txt" --out "$DIR/link.txt"
[ "$(cat "$DIR/in.txt")" = text ] || fail "weir tokenize has replaced what it reads"
printf a > "$DIR/in.txt"
expect 0 "1 document, 1 token of a vocabulary of 256; 1 byte in 1 file, " tokenize --tokenizer bytes --in "$DIR/in.txt" --eos none --out "$DIR/x"
expect 0 "usage: weir train JOB.yaml" train --help
expect 0 "usage: weir eval" eval "$DIR/job.yaml" -h
expect 0 "--set A.B=C" eval "$DIR/job.yaml" -h
for verb in train sweep status eval predict datagen export import checkpoint restore health move drain rebalance rewind certs bench; do
	expect 0 "usage: weir $verb" $verb nonsense --help
	grep -qE '^  --[a-z-]+( [A-Z][A-Za-z.=]*)?  +[A-Za-z]' "$DIR/out" || fail "weir $verb --help says nothing about its options"
done
expect 2 "did you mean 'train'" tarin
for verb in train eval "predict --out x" "export --out x" "import --in x" "restore --from latest"; do
	expect 2 "needs a job file: JOB.yaml or --job JOB.yaml" $verb
done
expect 2 "expected train, valid or test" eval "$DIR/job.yaml" --part all
expect 2 "give one of them" train "$DIR/job.yaml" --resume --fresh
expect 2 "did you mean '--report'" train --repotr x
expect 2 "--job FILE or --at ADDRESS" status
expect 2 "did you mean store" bench stoer
expect 2 "needs --at ADDRESS" health
expect 1 "127.0.0.1:1" health --at 127.0.0.1:1
expect 2 "--rows is 'many'" datagen --rows many --out x
expect 1 "hiden" train "$DIR/job.yaml" --set model.hiden=3
expect 1 "does not run here" status --job "$DIR/job.yaml"
expect 1 "nothing.yaml" train "$DIR/nothing.yaml"
expect 2 "PARTITION is a number, from 0 on, or ledger, not 'first'" move first 1 "$DIR/job.yaml"
expect 2 "SERVER is a number, from 0 on, not 'ledger'" move ledger ledger "$DIR/job.yaml"

# A server reports mistakes in its arguments at once, before it waits for a missing etcd.
expect_server() { # expect_server STATUS TEXT ARGUMENTS...
	local status=$1 text=$2
	shift 2
	timeout 60 "$BUILD/weir-server" --job "$DIR/job.yaml" "$@" > "$DIR/out" 2> "$DIR/use.err" < /dev/null
	local got=$?
	[ $got = "$status" ] || fail "weir-server $*: exit status $got, not $status"
	grep -qF -- "$text" "$DIR/use.err" || fail "weir-server $*: does not say '$text': $(cat "$DIR/use.err")"
}
expect_server 2 "--index: '300' is not allowed; expected a number from 0 to 255" --index 300
expect_server 2 "--uuid: '12' is not allowed; expected 32 hex digits" --index 0 --uuid 12
expect_server 2 "--log-level: 'loud' is not allowed; expected debug, info, warn or error" --index 0 --log-level loud
expect_server 2 "--advertise: 'here' is not allowed; expected HOST:PORT" --index 0 --advertise here
"$BUILD/weir-worker" --job "$DIR/job.yaml" --name w 2> "$DIR/use.err"
[ $? = 2 ] && grep -q "give --ledger, or cluster.servers_at" "$DIR/use.err" || fail "weir-worker without a ledger: $(cat "$DIR/use.err")"
expect_server 1 "'127.0.0.1:99999': expected HOST:PORT, with a port up to 65535, or unix:/path" --index 0 --listen 127.0.0.1:99999 \
	--set cluster.replicas=2 --set cluster.coord=etcd://127.0.0.1:1
