# Only frame.c reads and writes a record's general words; other code uses the names of its kind. At
# most one switch has cases of record kinds: the map's own, in frame.c.
. tests/claims/lib/common.sh
mapfile -t files < <(git ls-files 'proto/*.[ch]' 'server/*.[ch]' 'worker/*.[ch]' 'cli/*.[ch]' 'overview/*.[ch]' | grep -v '^proto/frame/frame\.[ch]$')
grep -nE 'words\.(a|b|c|status)\b' "${files[@]}" > "$WORK/words" || true
# struct record has no fields a, b or c: the compiler refuses them.
cat > "$WORK/planted.c" <<'C'
#include "proto/frame/frame.h"
unsigned long long planted(const struct record *r);
unsigned long long planted(const struct record *r) { return r->a + r->b + r->c; }
C
refused=0
cc -std=gnu17 -fsyntax-only -iquote "$ROOT" -I common/include "$WORK/planted.c" 2> "$WORK/cc" || refused=$(grep -c "has no member named" "$WORK/cc")
switches=$(grep -lE '^\s*(case RECORD_[A-Z_]+:|#define RECORD_KIND_CASE)' "${files[@]}" proto/frame/frame.c | tee "$WORK/switches" | grep -c .)
cat "$WORK/words" "$WORK/switches"
verdict "$(grep -c . "$WORK/words") == 0 and $refused == 3 and $switches <= 1" \
	"$(grep -c . "$WORK/words") uses of a record's words outside frame.c; r->a, r->b, r->c: $refused of 3 refused; $switches files with a switch over record kinds"
