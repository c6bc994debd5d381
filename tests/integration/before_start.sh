# Mistakes are refused before the earlier run is touched: --fresh deletes only when the new run can
# begin.
. "$(dirname "$0")/lib.sh"
write_job 1 "log: disk"
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/model.safetensors" > /dev/null 2> "$DIR/export.err" || fail "weir export"

# refused WORD... -- ARGUMENTS...: `weir train` with these arguments fails, gives the reason in its
# last line, and changes no byte of the run.
before=$(files "$RUN")
refused() {
	local words=()
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	"$WEIR" train "$DIR/job.yaml" "$@" > "$DIR/out" 2> "$DIR/out.err" < /dev/null
	[ $? = 1 ] || fail "not refused: $*"
	told "${words[@]}" "$DIR/out.err"
	[ "$before" = "$(files "$RUN")" ] || fail "something was changed by: $*"
}
refused --resume --fresh --
refused nothing.safetensors -- --fresh --set "train.warm_start=$DIR/nothing.safetensors"
head -c 1000 "$DIR/model.safetensors" > "$DIR/cut.safetensors"
refused cut.safetensors -- --fresh --set "train.warm_start=$DIR/cut.safetensors"
refused "model.safetensors" "model.dim was '8'" -- --fresh --set "train.warm_start=$DIR/model.safetensors" --set model.dim=4
refused best.safetensors "copy it" -- --fresh --set "train.warm_start=$RUN/best.safetensors"
ln -s "$RUN/server-0/IDENTITY" "$DIR/link"
refused link "copy it" -- --fresh --set "train.warm_start=$DIR/link"
refused "no.such.host.invalid" "does not resolve" -- --fresh --set cluster.listen=no.such.host.invalid:5000 --set security.insecure=true
refused 70000 -- --fresh --set cluster.listen=127.0.0.1:70000
refused "--report" "$DIR/nowhere" -- --fresh --report "$DIR/nowhere/out.json"
refused "--report" "is a folder" -- --fresh --report "$DIR"
refused nothing.tsv -- --fresh --set data.generate.rows=0 --set "data.train=$DIR/nothing.tsv"
refused "no " "use device: cpu" -- --fresh --set device=cuda:999
refused "device: cpu" -- --fresh --set device=cuda
nothing_left

# A run that failed to start does not block the next one.
rm -r "$RUN/server-0" "$RUN/server-1" "$RUN/worker-0.log"
mkdir "$RUN/worker-0.log"
start_train
finish_train 30
told "cannot write $RUN/worker-0.log" "$DIR/train.err"
[ -e "$RUN/server-0.log" ] || fail "the servers were not started"
[ ! -e "$RUN/server-0" ] && [ ! -e "$RUN/server-1" ] || fail "the data of a run that did not start are kept"
nothing_left
