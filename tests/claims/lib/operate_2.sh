# Kubernetes accepts every rendered overlay of docker/k8s, and every misspelt field of each kind is
# found. The pods' commands of two overlays run as processes.
. tests/claims/lib/common.sh
need_installed claims kubectl
need_programs
# shown NAME ARGUMENTS...: runs a test of tests/k8s
shown() {
	bash "tests/k8s/$1.sh" "$BUILD" "${@:2}" > "$WORK/out"
	local code=$?
	tail -n 20 "$WORK/out"
	[ $code != 77 ] || skip "$(tail -n 1 "$WORK/out")"
	[ $code = 0 ] || give_up "tests/k8s/$1.sh ${*:2}"
}
if [ "$QUICK" = 1 ]; then
	say "QUICK: no pods are run"
else
	shown pods etcd
	shown pods tls
fi
shown manifests
verdict True "$(tail -n 1 "$WORK/out")"
