# Data that no worker has: on a web server that is sometimes busy, silent or breaks off, and in an
# S3 bucket. Each worker's machine copies it once. The job trains and tests on all of it.
. "$(dirname "$0")/lib.sh"
HERE=$(cd "$(dirname "$0")" && pwd)
export AWS_ACCESS_KEY_ID=AKIDWEIRTEST AWS_SECRET_ACCESS_KEY=a/secret+key
mkdir "$DIR/served"
"$WEIR" datagen --rows 20000 --ids 20000 --seed 3 --out "$DIR/all.tsv" > /dev/null || fail "no data"
split -n l/4 -d -a 1 --additional-suffix=.tsv "$DIR/all.tsv" "$DIR/served/part-"
gzip "$DIR/served/part-3.tsv"
python3 "$HERE/../s3/web.py" "$DIR/served" > "$DIR/web.port" 2> "$DIR/web.log" &
WEB=$!
python3 "$HERE/../s3/server.py" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" us-west-7 weir-it > "$DIR/s3.port" 2> "$DIR/s3.log" &
S3=$!
trap 'kill -KILL $WEB $S3; wait $WEB $S3 2> /dev/null; cleanup' EXIT
wait_for 10 "the web server" test -s "$DIR/web.port"
wait_for 10 "the S3 server" test -s "$DIR/s3.port"
WEB_AT=http://127.0.0.1:$(cat "$DIR/web.port") S3_AT=http://127.0.0.1:$(cat "$DIR/s3.port")
# ask URL [FILE]: posts it and prints the answer.
ask() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], open(sys.argv[2], "rb").read() if len(sys.argv) > 2 else b"").read().decode())' "$@"; }

# run WHAT PATTERNS [KEYS OF DATA]: every row is trained on, tested on or left for validation.
run() {
	write_job 1
	sed -i "s|  generate: .*|  train: $2\n  split: {by: crc32}${3:+\n  $3}|" "$DIR/job.yaml"
	start_train --set "run_dir=$RUN-$1"
	finish_train 60
	[ $STATUS = 0 ] || fail "$1: exit status $STATUS"
	audited
	[ "$(json "$DIR/report.json" '.rows + .test.rows + .valid.rows')" = 20000 ] || fail "$1: of 20000 rows $(json "$DIR/report.json" '[.rows, .test.rows, .valid.rows]')"
}
ask "$WEB_AT/-/fail?what=cut&count=2&after=2" > /dev/null
run web "['$WEB_AT/part-{0..2}.tsv', '$WEB_AT/part-3.tsv.gz']"
[ "$(ask "$WEB_AT/-/sent")" = "$(cat "$DIR"/served/* | wc -c)" ] || fail "some bytes were sent twice"

# The same in a bucket.
for file in "$DIR"/served/*; do ask "$S3_AT/-/objects/clicks/${file##*/}" "$file" > /dev/null || fail "the bucket is not filled"; done
run bucket "s3://weir-it/clicks/part-*" "endpoint: '$S3_AT'\n  region: us-west-7"

# Missing data is named, and workers are not restarted for it for ever.
sed -i "s|  train: .*|  train: $WEB_AT/nowhere.tsv|" "$DIR/job.yaml"
start_train --set "run_dir=$RUN-nowhere"
finish_train 60
[ $STATUS != 0 ] || fail "trained on nothing"
grep -hq "nowhere.tsv: it is not there" "$DIR"/train.err "$RUN-nowhere"/*.log || fail "it is not named"
