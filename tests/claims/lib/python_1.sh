# The wheel in clean environments. Each Python from 3.9 on that this machine has (and each that
# Debian offers, if PYTHONS names it) gets an environment without packages and a PATH without a
# compiler, installs the wheel and its dependencies as wheels, and runs the first program of
# docs/PYTHON.md: it trains. For each Python, all of it takes less than 60 s. auditwheel finds nothing
# beyond manylinux_2_36.
. tests/claims/lib/common.sh
make -s wheel >&2 || give_up "make wheel failed"
wheels=("$BUILD"/wheel/*.whl)
[ ${#wheels[@]} = 1 ] || give_up "more than one wheel: ${wheels[*]}"
wheel=${wheels[0]} bytes=$(stat -c %s "${wheels[0]}")

python3 -m venv "$WORK/tools" && "$WORK/tools/bin/pip" install -q auditwheel >&2 || skip "auditwheel cannot be installed"
PATH="$WORK/tools/bin:$PATH" auditwheel show "$wheel" > "$WORK/audit" || give_up "auditwheel show failed"
platform=$(sed -n 's/^the following platform tag: "\(.*\)".*/\1/p' "$WORK/audit" | tr -d '\n')
[ "$platform" ] || platform=$(tr '\n' ' ' < "$WORK/audit" | grep -o 'manylinux_2_[0-9]*_x86_64' | head -n 1)
glibc=$(echo "$platform" | sed -n 's/^manylinux_2_\([0-9]*\)_.*/\1/p')
echo "$(basename "$wheel"): $((bytes >> 20)) MiB, auditwheel show: $platform"

python3 - "$WORK/first.py" <<'PY'
import re, sys

program = re.search(r"```python\n(.*?)```", open("docs/PYTHON.md").read(), re.DOTALL).group(1)
assert len(program.splitlines()) <= 25, "the first program is longer than 25 lines"
open(sys.argv[1], "w").write(program)
PY
mkdir "$WORK/bin" # a PATH without compilers
for program in sh env uname ldd; do ln -s "$(command -v $program)" "$WORK/bin/$program"; done

# usable PATH: whether it is a CPython from 3.9 on
usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 9) or sys.implementation.name != "cpython")' 2> /dev/null; }
declare -A seen
pythons=()
for python in ${PYTHONS:-} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 $(compgen -c | grep -E '^python3\.[0-9]+t?$' | sort -Vu) python3; do
	python=$(command -v "$python") && usable "$python" || continue
	real=$(readlink -f "$python")
	[ "${seen[$real]:-}" ] || pythons+=("$python")
	seen[$real]=1
done
[ ${#pythons[@]} -gt 0 ] || skip "there is no Python from 3.9 on"

trained=0 slowest=0
for python in "${pythons[@]}"; do
	began=$(date +%s.%N)
	name=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') environment=$WORK/venv-${#seen[@]}-$trained
	"$python" -m venv "$environment" > "$WORK/log" 2>&1 || { echo "Python $name makes no environment:" && cat "$WORK/log"; continue; }
	env -i HOME="$WORK" PATH="$environment/bin:$WORK/bin" ${PIP_CERT:+PIP_CERT="$PIP_CERT"} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
		"$environment/bin/pip" install -q --disable-pip-version-check --only-binary :all: "$wheel" > "$WORK/log" 2>&1 || { cat "$WORK/log" >&2; give_up "Python $name does not install the wheel"; }
	out=$(cd "$WORK" && env -i HOME="$WORK" PATH="$environment/bin:$WORK/bin" "$environment/bin/python" "$WORK/first.py" 2>&1) || { echo "$out" >&2; give_up "the first program fails with Python $name"; }
	seconds=$(python3 -c 'import sys; print("%.1f" % (float(sys.argv[2]) - float(sys.argv[1])))' "$began" "$(date +%s.%N)")
	slowest=$(python3 -c 'import sys; print(max(map(float, sys.argv[1:])))' "$slowest" "$seconds")
	echo "Python $name, $seconds s: $(echo "$out" | tr '\n' ';')"
	better=$(echo "$out" | sed -n 's/^mean squared error \([0-9.]*\) before training, \([0-9.]*\) after$/\2 < 0.1 * \1/p')
	[ "$better" ] && true_that "$better" || give_up "it has not trained with Python $name"
	echo "$out" | grep -q "exactly once: True" || give_up "the audit is not exact with Python $name"
	trained=$((trained + 1))
done
verdict "$trained == ${#pythons[@]} and $slowest < 60 and ${glibc:-99} <= 36 and $bytes <= 45 << 20" \
	"$trained of ${#pythons[@]} Pythons install the wheel without a compiler and train, each in at most $slowest s"
