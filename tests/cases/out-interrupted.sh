# A command interrupted by a signal leaves no partial file, beside its output or in TMPDIR, and ends
# by that signal.
. "$(dirname "$0")/../integration/lib.sh"
mkdir "$DIR/out" "$DIR/tmp"
export TMPDIR=$DIR/tmp
awk 'BEGIN { for (i = 0; i < 20000; i++) print "a line of a text that is to be tokenized, again and again, until somebody has enough of it" }' > "$DIR/text"
for i in 1 2 3 4 5 6; do cat "$DIR/text" "$DIR/text" > "$DIR/twice" && mv "$DIR/twice" "$DIR/text"; done
begun() { [ -n "$(find "$DIR/out" "$DIR/tmp" -name '*.tmp')" ]; }
# ends SIGNAL STATUS COMMAND...
ends() {
	local signal=$1 expected=$2 status=0
	shift 2
	env --default-signal=INT "$WEIR" "$@" > /dev/null 2> "$DIR/verb.err" &
	wait_for 20 "weir $1 to write" begun
	kill "-$signal" $!
	wait $! 2> /dev/null || status=$?
	[ "$status" = "$expected" ] || fail "weir $1 ends with $status at $signal: $(cat "$DIR/verb.err")"
	[ -z "$(ls -A "$DIR/out" "$DIR/tmp" | grep -v '^$\|:$')" ] || fail "weir $1 leaves $(find "$DIR/out" "$DIR/tmp")"
}
ends INT 130 datagen --rows 200M --out "$DIR/out/clicks.tsv"
ends TERM 143 datagen --rows 200M --out "$DIR/out/clicks.tsv"
ends HUP 129 datagen --rows 200M --out -
ends TERM 143 tokenize --tokenizer bytes --in "$DIR/text" --out "$DIR/out/tokens.bin"
"$WEIR" datagen --rows 1000 --out "$DIR/out/clicks.tsv" > /dev/null 2> "$DIR/verb.err" || fail "weir datagen"
[ "$(wc -l < "$DIR/out/clicks.tsv")" = 1000 ] || fail "the whole file"
nothing_left
