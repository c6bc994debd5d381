#!/usr/bin/env bash
# manifests.sh BUILD_DIR: every overlay of docker/k8s is rendered, and validate.py says whether it is right. 77: something that it needs is not here; it says what.
set -u
cd "$(dirname "$0")/../.."
build=$1
python=$build/kubernetes-validate/bin/python
skip() { echo "SKIPPED: $*"; exit 77; }

dir=$(mktemp -d /tmp/weir-k8s-XXXXXX)
trap 'rm -rf "$dir"' EXIT
command -v kubectl > /dev/null || skip "there is no kubectl here"
kubectl version --client -o json 2> /dev/null | grep -q '"kustomizeVersion": "v[5-9]' || skip "kubectl's kustomize is older than version 5"
if ! "$python" -c 'import kubernetes_validate' 2> /dev/null; then
	rm -rf "$build/kubernetes-validate"
	python3 -m venv "$build/kubernetes-validate" > "$dir/venv.log" 2>&1 &&
		timeout 60 "$python" -m pip install -q --retries 0 --timeout 5 'kubernetes-validate>=1.33' > "$dir/venv.log" 2>&1 ||
		{ tail -n 2 "$dir/venv.log"; skip "the schemas of Kubernetes (PyPI: kubernetes-validate) cannot be had"; }
fi
for overlay in docker/k8s/overlays/*/; do
	name=$(basename "$overlay")
	kubectl kustomize "$overlay" > "$dir/$name.yaml" || { echo "FAILED: $name cannot be rendered"; exit 1; }
done
"$python" tests/k8s/validate.py "$dir"/*.yaml
