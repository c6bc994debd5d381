#!/usr/bin/env bash
# Makes a virtual environment with the package as `cmake --install` leaves it. It sees the packages of Debian's Python.
#   install.sh CMAKE BUILD_DIR ENVIRONMENT
set -eu
rm -rf "$3"
/usr/bin/python3 -m venv --without-pip --system-site-packages "$3"
"$1" --install "$2" --component python --prefix "$("$3/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" >"$2/tests/python_install.log"
"$3/bin/python" -c 'import weir; print(weir.CHUNK)'
