#!/usr/bin/env bash
# Takes the steps of docs/tutorials/own-model.md with the package of a virtual environment.
#   python.sh BUILD ENVIRONMENT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d /tmp/weir-tutorial-XXXXXX)
trap 'rm -rf "$folder"' EXIT
PATH=$2/bin:$PATH python3 "$here/run.py" "$here/../../docs/tutorials/own-model.md" "$1" "$folder"
