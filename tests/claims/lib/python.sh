# Shared by the claims about the Python package.
. tests/claims/lib/common.sh

# Makes the wheel; WHEEL is its path. pip takes its builders from an index.
need_wheel() {
	make -s wheel > "$WORK/wheel.log" 2>&1 || { tail -n 20 "$WORK/wheel.log" >&2; give_up "the wheel cannot be made"; }
	WHEEL=$(echo build/wheel/*.whl)
	say "$(tail -n 1 "$WORK/wheel.log")"
}

# Prints the interpreters of this machine from 3.9 on, one of each version: those of PYTHONS, or
# those on PATH and in pyenv's folder.
pythons() {
	local path version
	# shellcheck disable=SC2086 # words
	for path in ${PYTHONS:-/usr/bin/python3.* "$HOME"/.pyenv/versions/*/bin/python3 $(command -v python3)}; do
		[ -x "$path" ] || continue
		version=$("$path" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) || continue
		[ "${version%%.*}" = 3 ] && [ "${version#*.}" -ge 9 ] && echo "$version $path"
	done | sort -t. -k 2 -n -u -s -k 1,1V
}

# environment PYTHON FOLDER PACKAGE...: a virtual environment with the wheel and these packages.
environment() {
	local python=$1 folder=$2
	shift 2
	"$python" -m venv "$folder" || give_up "$python makes no virtual environment"
	"$folder/bin/pip" install -q --disable-pip-version-check --only-binary :all: "$WHEEL" "$@" >&2 || give_up "pip cannot install $WHEEL $*"
}

# suite ENVIRONMENT TEST...: files of python/tests
suite() {
	local folder=$1
	shift
	(cd python/tests && PYTHONDONTWRITEBYTECODE=1 "$folder/bin/python" -m unittest "$@") > "$WORK/suite.log" 2>&1 ||
		{ tail -n 40 "$WORK/suite.log" >&2; give_up "DOES NOT HOLD: $*"; }
	grep -E '^Ran |^OK' "$WORK/suite.log" | xargs
}

# need_package MODULE...: sets PYTHON to a Python with weir and these modules: the machine's own, or
# with FROM_PYPI=1 one with the newest releases.
need_package() {
	local modules given
	modules=$(IFS=,; echo "$*")
	given=/usr/bin/python3
	if [ "${FROM_PYPI:-0}" = 1 ]; then
		need_python "$@"
		given=$PYTHON
	fi
	cmake --preset release > "$WORK/cmake.log" 2>&1 && cmake --build "$BUILD" --target weir_python >&2 || give_up "the Python package does not build"
	"$given" -m venv --without-pip "$WORK/venv" || skip "$given makes no environment: packages.txt names python3-venv"
	PYTHON=$WORK/venv/bin/python
	local folder site
	folder=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	site=$("$given" -c 'import site; print("\n".join(site.getsitepackages()))')
	echo "$site" > "$folder/given.pth"
	cmake --install "$BUILD" --component python --prefix "$folder" > "$WORK/install.log" 2>&1 || { cat "$WORK/install.log" >&2; give_up "the Python package cannot be installed"; }
	"$PYTHON" -c "import weir, $modules" || skip "$given has not all of: $*"
}
