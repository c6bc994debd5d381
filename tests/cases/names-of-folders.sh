# Run folders and data work with spaces, quotes, brackets and URL characters in their names. A comma
# or a newline, which would split addresses or lines, is refused by name.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 2, 1 + i % 2 ":1", 3 + i % 5 ":1" }' > plain.svm
# job FOLDER: with data of the same name inside.
job() {
	python3 -c 'import json, sys
print(json.dumps({"job": "names", "run_dir": sys.argv[1], "cluster": {"servers": 2, "workers": 2, "partitions": 4},
  "data": {"format": "libsvm", "train": sys.argv[1] + "/" + sys.argv[2] + ".svm", "valid": "plain.svm", "batch": 16}, "model": {"kind": "lr"}}))' "$1" "$(basename "$1")" > job.yaml
}
i=0
for name in 'a=b#c?d%e%20&;' "it's \"here\" [x]{y}*" '-rf ~ $HOME back\slash:ünï'; do
	mkdir "$DIR/$name" && cp plain.svm "$DIR/$name/$name.svm"
	job "$DIR/$name"
	sed -i 's/\$HOME/$$HOME/g' job.yaml
	"$WEIR" train job.yaml --report "$DIR/report.json" > train.out 2> train.err || fail "weir train in '$name': $(tail -n 1 train.err)"
	audited
	holds report.json ".valid.rows == 90"
	"$WEIR" eval job.yaml --json > eval.json 2> eval.err || fail "weir eval in '$name': $(cat eval.err)"
	[ "$(jq -r .weights eval.json)" = "$DIR/$name/best.safetensors" ] || fail "weir eval in '$name' says $(cat eval.json)"
	"$WEIR" export job.yaml --out weights.safetensors > export.out 2> export.err || fail "weir export in '$name': $(cat export.err)"
	[ -n "$(ls "$DIR/$name/events")" ] || fail "no events in '$name'"
	i=$((i + 1))
done
mkdir "$DIR/slashes" && cp plain.svm "$DIR/slashes/slashes.svm"
# Two leading slashes would begin a host name in a socket's address.
job "//${DIR#/}//slashes"
timeout 60 "$WEIR" train job.yaml --report "$DIR/report.json" > train.out 2> train.err || fail "weir train in //: $(tail -n 1 train.err)"
audited
for name in 'a,b' $'a\nb'; do
	mkdir "$DIR/$name" && cp plain.svm "$DIR/$name/$name.svm"
	job "$DIR/$name"
	"$WEIR" train job.yaml > train.out 2> train.err && fail "weir train in '$name'"
	told run_dir train.err
	# Such data is harmless.
	"$WEIR" train job.yaml --set run_dir="$RUN" --fresh > train.out 2> train.err || fail "data in '$name': $(tail -n 1 train.err)"
done
job "$DIR/a,b"
"$WEIR" train job.yaml --set cluster.listen=127.0.0.1:0 > train.out 2> train.err || fail "weir train in 'a,b' with TCP: $(tail -n 1 train.err)"
nothing_left
echo "$i names work to the end"
