# `make install` gives strangers what they expect. A foreign CMake project, and plain cc with
# pkg-config, build tests/embed's trainer and train. Programs train a job. Man pages and completion
# list the programs' options. The version is the same everywhere. In a folder, moved to another one,
# below DESTDIR, and for the library of a bundle. QUICK=1: in a folder only.
. tests/claims/lib/common.sh
need_programs
bad=0 done=0
try() { # try NAME PREFIX TEST...: runs scripts of tests/install
	local name=$1 prefix=$2 test
	shift 2
	for test; do
		if bash "tests/install/$test.sh" "$prefix" "$ROOT" > "$WORK/out" 2>&1; then
			echo "$name, $test: $(tail -n 1 "$WORK/out")"
			done=$((done + 1))
		else
			cat "$WORK/out" >&2
			echo "$name, $test: FAILS"
			bad=$((bad + 1))
		fi
	done
}
install() { make -s install "$@" > "$WORK/install" 2>&1 || { cat "$WORK/install" >&2; give_up "make install $* fails"; }; }

install PREFIX="$WORK/prefix"
cp build/install_manifest.txt "$WORK/manifest"
try "installed" "$WORK/prefix" trainers programs manual completion
bash tests/install/help.sh "$ROOT" && bash tests/install/version.sh "$ROOT" "$BUILD" || bad=$((bad + 1))
if [ "$QUICK" = 1 ]; then
	echo "QUICK=1: not moved, not below DESTDIR, no bundle"
else
	mv "$WORK/prefix" "$WORK/moved"
	try "moved" "$WORK/moved" trainers programs
	mv "$WORK/moved" "$WORK/prefix"
	xargs -a "$WORK/manifest" -d '\n' rm
	left=$(find "$WORK/prefix" ! -type d)
	[ -z "$left" ] || { echo "install_manifest.txt does not name: $left"; bad=$((bad + 1)); }

	install PREFIX=/usr DESTDIR="$WORK/package"
	try "below DESTDIR" "$WORK/package/usr" trainers programs manual completion

	need_installed image patchelf
	BUNDLE=$WORK/bundle CUDA_LIBRARY=/none scripts/bundle.sh > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "the bundle cannot be made"; }
	"${CC:-cc}" -std=c11 tests/embed/linear_regression.c -I"$WORK/bundle/include" -L"$WORK/bundle/lib" -lweir -lm -Wl,-rpath,"$WORK/bundle/lib" -o "$WORK/trainer" &&
		sh tests/embed/run.sh "$WORK/bundle/bin/weir-server" "$WORK/trainer" || bad=$((bad + 1))
fi
verdict "$done > 0 and $bad == 0" "installed, and used by strangers: $done scripts of tests/install pass, $bad fail"
