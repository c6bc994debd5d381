# Shared by the tests of docker/k8s: TEST.sh BUILD_DIR. Exit status 77: a need is missing, which the
# last line names.
set -u
cd "$(dirname "$0")/../.."
build=$1
python=$build/kubernetes-validate/bin/python # has the schemas and a YAML reader
skip() { echo "SKIPPED: $*"; exit 77; }

dir=$(mktemp -d /tmp/weir-k8s-XXXXXX)
trap 'rm -rf "$dir"' EXIT
command -v kubectl > /dev/null || skip "there is no kubectl here"
kubectl version --client -o json 2> /dev/null | grep -q '"kustomizeVersion": "v[5-9]' || skip "kubectl's kustomize is older than version 5"

make_python() {
	rm -rf "$build/kubernetes-validate"
	python3 -m venv "$build/kubernetes-validate" > "$dir/venv.log" 2>&1 &&
		timeout 60 "$python" -m pip install -q --retries 0 --timeout 5 'kubernetes-validate>=1.33' > "$dir/venv.log" 2>&1 ||
		{ tail -n 2 "$dir/venv.log"; skip "the schemas of Kubernetes (PyPI: kubernetes-validate) cannot be had"; }
}
if ! "$python" -c 'import kubernetes_validate' 2> /dev/null; then # two tests may run at once
	exec 9> "$build/kubernetes-validate.lock"
	flock 9
	"$python" -c 'import kubernetes_validate' 2> /dev/null || make_python
	exec 9>&-
fi

render() { # render OVERLAY: to $dir/OVERLAY.yaml
	kubectl kustomize "docker/k8s/overlays/$1" > "$dir/$1.yaml" || { echo "FAILED: $1 cannot be rendered"; exit 1; }
}
