#!/bin/sh
# What `make arrow` runs: builds build/libweir_arrow.so, the plug-in that reads Parquet and Arrow files, with the Arrow of PyPI's pyarrow
# (arrow/pyarrow.txt names the release), which it installs in build/pyarrow: from the folder WHEELS, if there is a wheel, or from PyPI.
set -eu
cd "$(dirname "$0")/.."
if ! cmp -s arrow/pyarrow.txt build/pyarrow/made; then
	rm -rf build/pyarrow
	python3 -m venv build/pyarrow
	here=""
	for wheel in "${WHEELS:-}"/*.whl; do [ ! -e "$wheel" ] || here="--no-index --find-links $WHEELS"; done
	# shellcheck disable=SC2086 # words
	build/pyarrow/bin/python -m pip install -q $here -r arrow/pyarrow.txt
	cp arrow/pyarrow.txt build/pyarrow/made
fi
folder=$(build/pyarrow/bin/python -c 'import os, pyarrow; print(os.path.dirname(pyarrow.__file__))')
cmake --preset release "-DWEIR_PYARROW=$folder" >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
cmake --build build -j "${JOBS:-$(nproc)}" --target weir_arrow
echo "build/libweir_arrow.so reads Parquet and Arrow files"
