# Shared by the claims about the Python package: installs it from this build into an environment.

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
