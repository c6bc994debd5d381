# Every overlay of docker/k8s renders and is what Kubernetes takes; each field of each kind, misspelt, is found.
. tests/claims/lib/common.sh
mkdir -p "$BUILD"
bash tests/k8s/manifests.sh "$BUILD" > "$WORK/out"
code=$?
cat "$WORK/out"
[ $code != 77 ] || give_up "not shown here: $(tail -n 1 "$WORK/out")"
verdict "$code == 0" "$(tail -n 1 "$WORK/out")"
