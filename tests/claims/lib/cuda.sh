# Shared by the claims about CUDA.
. tests/claims/lib/common.sh
PATH="$PATH:/usr/local/cuda/bin"
command -v make > /dev/null || export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}

# need_gpu: exits 77 unless the CUDA backend is built and finds a device.
need_gpu() {
	[ -e /dev/nvidiactl ] || nvidia-smi -L > /dev/null 2>&1 || skip "needs a GPU: there is none here"
	command -v nvcc > /dev/null || give_up "there is a GPU but no nvcc: the CUDA backend cannot be built"
	need_built cuda "$BUILD/cuda" weir_cuda "$@"
	nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
	date -u +%Y-%m-%d
}
# need_peers GROUP: leaves PyTorch's times in $WORK/peers, a line per way.
need_peers() {
	need_python torch
	rm -f "$WORK/peers"
	"$PYTHON" tests/bench/gpu/peers.py "$1" --out "$WORK/peers" || give_up "PyTorch cannot be measured: there is nothing to compare with"
}
# peer_speed NAME FORMAT: rows/s or tokens/s of PyTorch's fastest way.
peer_speed() { awk -F'\t' -v name="$1" -v format="$2" '$1 == name && (!n || $3 < s) { n = $2; s = $3 } END { if (n) printf format, n / s }' "$WORK/peers"; }
