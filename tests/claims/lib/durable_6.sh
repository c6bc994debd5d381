# Bad folders and checkpoints: a truncated, manipulated, half-written or newer checkpoint; two
# servers on one folder; read-only folders. Each is refused by a sentence that names the place, and
# no file changes by a byte. The integration tests check this.
. tests/claims/lib/common.sh
need_programs
[ "$QUICK" = 1 ] && echo "QUICK: the same, it takes a minute"
refused=0
for part in checkpoint_wrong server_restarts read_only; do
	bash "tests/integration/$part.sh" "$BUILD" > "$WORK/$part.out" 2>&1 || { cat "$WORK/$part.out" >&2; verdict False "tests/integration/$part.sh failed, or could not run here"; }
	grep '^refused: ' "$WORK/$part.out"
	refused=$((refused + $(grep -c '^refused: ' "$WORK/$part.out")))
done
verdict "$refused >= 20" "$refused wrong things refused, each by a sentence that names the place, and no file changed"
