#!/usr/bin/env bash
# manifests.sh BUILD_DIR: renders every overlay of docker/k8s and checks it with validate.py.
# promtool, if installed, tests the number of trainers that the scaling rules ask for.
. "$(dirname "$0")/lib.sh"
for overlay in docker/k8s/overlays/*/; do
	render "$(basename "$overlay")"
done
if command -v promtool > /dev/null; then
	"$python" -c 'import sys, yaml; print(yaml.dump(next(o["spec"] for o in yaml.safe_load_all(sys.stdin) if o["kind"] == "PrometheusRule")))' < "$dir/keda.yaml" > "$dir/scaling.yaml" &&
		cp tests/k8s/scaling_test.yaml "$dir" && promtool test rules "$dir/scaling_test.yaml" > "$dir/promtool.log" 2>&1 || { cat "$dir/promtool.log"; echo "FAILED: the rule of scaling"; exit 1; }
	rm "$dir/scaling.yaml" "$dir/scaling_test.yaml"
else
	echo "there is no promtool here: the rule of scaling is not tested"
fi
"$python" tests/k8s/validate.py "$dir"/*.yaml
