# Comments of production code have at most 100 columns. The words that the field does not use
# (tests/claims/house_words.txt) are in no name, comment, message or page, and the functions that end a
# lifetime are called _destroy, _close or _stop. A planted one of each kind is found.
. tests/claims/lib/common.sh
cp tests/claims/lib/house_words.py "$WORK/words.py"
python3 "$WORK/words.py" "$ROOT" > "$WORK/found" || true
head -n 40 "$WORK/found" >&2
# A tree with one of each.
mkdir -p "$WORK/tree/server" "$WORK/tree/docs" "$WORK/tree/tests/claims"
cp tests/claims/house_words.txt "$WORK/tree/tests/claims"
printf '/* %s */\n' "$(printf 'long %.0s' {1..25})" > "$WORK/tree/server/long.c"
echo '/* A parcel is sent. */' > "$WORK/tree/server/comment.c"
echo 'const char *text(void) { return "the hosting is unknown"; }' > "$WORK/tree/server/message.c"
echo 'struct heart *heart_create(void);' > "$WORK/tree/server/name.h"
echo 'void parting_free(struct parting *p);' > "$WORK/tree/server/function.h"
echo 'Each server has promises.' > "$WORK/tree/docs/page.md"
(cd "$WORK/tree" && git init -q . && git add .)
planted=$(python3 "$WORK/words.py" "$WORK/tree" | tee /dev/stderr | cut -d: -f1 | sort -u | grep -c .)
verdict "$(grep -c . "$WORK/found") == 0 and $planted == 6" \
	"$(grep -c . "$WORK/found") comments over 100 columns or retired words in $(git ls-files | wc -l) files; $planted of 6 planted ones found"
