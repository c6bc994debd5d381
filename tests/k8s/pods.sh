#!/usr/bin/env bash
# pods.sh BUILD_DIR [OVERLAY [SCRIPT PROGRAMS]]: runs the pods of an overlay with replicas (etcd) as
# processes, by SCRIPT (pods.py). PROGRAMS: a folder that comes first on their PATH.
. "$(dirname "$0")/lib.sh"
command -v etcd > /dev/null || skip "there is no etcd here"
overlay=${2:-etcd}
render "$overlay"
mkdir "$dir/pods"
PATH=${4:+$4:}$PATH "$python" "tests/k8s/${3:-pods.py}" "$dir/$overlay.yaml" "$build" "$dir/pods"
