# In a clean environment of each Python of this machine, without a compiler on PATH: pip installs
# the wheel, and the first program of docs/PYTHON.md trains.
. tests/claims/lib/python.sh
SECONDS_MAX=60
need_wheel
glibc=$(sed -n 's/.*-manylinux_2_\([0-9]*\)_.*/\1/p' <<< "$WHEEL")
auditwheel=$(grep -o 'platform tag: "[^"]*"' build/wheel/audit.log)
[ "${glibc:-99}" -le 36 ] || give_up "DOES NOT HOLD: $WHEEL is for a later glibc than 2.36"
awk '/^```python/ {inside = 1; next} /^```/ && inside {exit} inside' docs/PYTHON.md > "$WORK/first.py"
longest=0 versions=()
while read -r version python; do
	began=$SECONDS
	environment "$python" "$WORK/$version"
	(cd "$WORK" && env -i PATH= HOME="$WORK" "$WORK/$version/bin/python" first.py) > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "DOES NOT HOLD: Python $version"; }
	grep -q 'exactly once: True' "$WORK/out" || { cat "$WORK/out" >&2; give_up "DOES NOT HOLD: Python $version"; }
	took=$((SECONDS - began))
	[ $took -le $longest ] || longest=$took
	say "Python $version: $took s: $(head -n 1 "$WORK/out")"
	versions+=("$version")
done < <(pythons)
verdict "$longest <= $SECONDS_MAX and ${#versions[@]} > 0" "Python ${versions[*]}: installed and trained in at most $longest s; $(basename "$WHEEL"), auditwheel: $auditwheel, $(($(stat -c %s "$WHEEL") >> 20)) MiB"
