#!/usr/bin/env bash
# manifests.sh BUILD_DIR: every overlay of docker/k8s is rendered, and validate.py says whether it is right.
. "$(dirname "$0")/lib.sh"
for overlay in docker/k8s/overlays/*/; do
	render "$(basename "$overlay")"
done
"$python" tests/k8s/validate.py "$dir"/*.yaml
