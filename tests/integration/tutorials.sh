# The tutorials of docs/tutorials, step by step, but for the one in Python, which tests/python runs.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
for page in own-log own-chat; do
	mkdir "$DIR/$page"
	python3 "$source/tests/tutorials/run.py" "$source/docs/tutorials/$page.md" "$BUILD" "$DIR/$page" > "$DIR/$page.out" 2>&1 || fail "$page: $(cat "$DIR/$page.out")"
	tail -n 1 "$DIR/$page.out"
done
nothing_left
