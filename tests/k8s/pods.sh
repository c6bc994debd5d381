#!/usr/bin/env bash
# pods.sh BUILD_DIR [OVERLAY]: runs the pods of an overlay with replicas (etcd) as processes
# (pods.py).
. "$(dirname "$0")/lib.sh"
command -v etcd > /dev/null || skip "there is no etcd here"
overlay=${2:-etcd}
render "$overlay"
mkdir "$dir/pods"
"$python" tests/k8s/pods.py "$dir/$overlay.yaml" "$build" "$dir/pods"
