#!/usr/bin/env bash
# pods.sh BUILD_DIR: the pods of an overlay with replicas do what they are to, as processes (pods.py).
. "$(dirname "$0")/lib.sh"
command -v etcd > /dev/null || skip "there is no etcd here"
render etcd
mkdir "$dir/pods"
"$python" tests/k8s/pods.py "$dir/etcd.yaml" "$build" "$dir/pods"
