# `make image` builds the images without a Docker engine, with the same bytes each time. Servers
# from one image and workers from the other train config/demo.yaml together.
. tests/claims/lib/common.sh
need_root "buildah's chroot isolation and mounts"
need_installed containers buildah debootstrap
ROWS=$(pick 500000 5000000)
SERVER_MB_MAX=150
IMAGES=$PWD/build/image
VERSION=$(scripts/version.sh)
WANTED=$(pick "server worker-cpu" "server worker-cpu worker-cuda")
[ "$QUICK" = 0 ] || say "QUICK: half a million rows in place of five, no CUDA image, and nothing is built a second time, to see whether it is the same"
[ -x /usr/local/cuda/bin/nvcc ] || WANTED="server worker-cpu"
export CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-90} # each takes minutes
builder() { buildah --root "$IMAGES/storage" --runroot "$IMAGES/run" "$@"; }
id_of() { builder inspect --type image --format '{{.FromImageID}}' "weir-$1:$VERSION"; }

# shellcheck disable=SC2086
scripts/image.sh $WANTED >&2 || give_up "the images cannot be built"
FIRST=$(id_of server)
SECOND=$FIRST
if [ "$QUICK" = 0 ]; then
	IMAGE_CACHE=no scripts/image.sh server >&2 || give_up "the server's image cannot be built again"
	SECOND=$(id_of server)
fi

# in_image CONTAINER COMMAND...: as the image's user, without capabilities.
in_image() {
	local container=$1
	shift
	builder run --isolation chroot --network host --cap-drop all -v "$WORK/state:/var/lib/weir" -v "$PWD/config:/etc/weir:ro" "$container" -- "$@"
}
CONTAINERS=
for name in $WANTED; do
	container=$(builder from "weir-$name:$VERSION") || give_up "no container of weir-$name"
	CONTAINERS="$CONTAINERS $container"
	root=$(builder mount "$container")
	mb=$(du -s --block-size=1000000 "$root" | cut -f 1)
	echo "weir-$name: $mb MB, compressed $(($(stat -c %s "$IMAGES/weir-$name.oci.tar") / 1000000)) MB, of $(jq '.packages | length' "$IMAGES/weir-$name.spdx.json") packages; $(find "$root" -type f | wc -l) files, shells: $(find "$root" -name 'sh' -o -name 'bash' -o -name 'busybox' | wc -l)"
	case $name in
	server) SERVER=$container SERVER_MB=$mb ;;
	worker-cpu) WORKER=$container ;;
	worker-cuda) env -u LD_LIBRARY_PATH chroot "$root" /bin/weir version > /dev/null || give_up "weir does not run in weir-worker-cuda" ;;
	esac
done
# Processes in the containers whose command lines have this run's ports.
inside() { grep -lszF "127.0.0.1:$A, 127.0.0.1:$B" /proc/[0-9]*/cmdline | tr -dc '0-9\n' | while read -r pid; do grep -qsz '^/bin/weir' "/proc/$pid/cmdline" && echo "$pid"; done; }
end_all() {
	local pid
	for pid in $(inside); do kill -KILL "$pid" 2> /dev/null; done
	wait
	for container in $CONTAINERS; do builder rm "$container" > /dev/null; done
	rm -rf "$WORK"
}
A=none B=none
trap end_all EXIT

# The job has the servers' addresses, so `weir train` in the worker's image only starts workers.
mkdir -m 777 "$WORK/state"
read -r A B <<< "$(python3 -c 'import socket; s = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]; print(*[x.getsockname()[1] for x in s])')"
JOB=(/etc/weir/demo.yaml --set run_dir=/var/lib/weir/run --set "cluster.servers_at=[127.0.0.1:$A, 127.0.0.1:$B]" --set "data.generate.rows=$ROWS")
for i in 0 1; do
	in_image "$SERVER" weir-server --job "${JOB[@]}" --index $i > "$WORK/server-$i.log" 2>&1 &
done
in_image "$WORKER" weir train "${JOB[@]}" --report /var/lib/weir/report.json > "$WORK/train.out" 2> "$WORK/train.err" ||
	{ tail -n 20 "$WORK/train.err" "$WORK"/server-*.log >&2; give_up "weir train failed"; }
for pid in $(inside); do kill -TERM "$pid"; done
wait
WRITTEN=$(for container in $SERVER $WORKER; do find "$(builder mount "$container")" -xdev -type f -user 10001; done | wc -l)
REPORT=$WORK/state/report.json
echo "two servers, two workers: test AUC $(figure "$REPORT" test.auc) of $(figure "$REPORT" data.bayes_auc), $(figure "$REPORT" audit.double) parts twice; $WRITTEN files written outside /var/lib/weir"
[ "$QUICK" = 1 ] || echo "built again from nothing: ${FIRST#sha256:} and ${SECOND#sha256:}"
verdict "$SERVER_MB < $SERVER_MB_MAX and '$FIRST' == '$SECOND' and $WRITTEN == 0 and $(figure "$REPORT" audit.double) == 0 and $(figure "$REPORT" finished)" "the images are built without a Docker engine, the server's has $SERVER_MB MB (< $SERVER_MB_MAX), and they train config/demo.yaml together"
