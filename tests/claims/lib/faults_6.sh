# Rehearses the four modes of tests/bench/gpu/run.sh on the emulated device. Each runs to its end,
# and each one killed halfway leaves its measurements. Then builds the kit of `make gpu-kit` if nvcc
# is present, also without make. On a device, runs the modes themselves, with their tables.
# LENT="truth why peers confirm": a selection of modes.
. tests/claims/lib/common.sh
PATH="$PATH:/usr/local/cuda/bin"
need_programs
need_tests bench_gpu bench_llm weir_gpu_tests weir_cuda_emulated
bash tests/integration/gpu_modes.sh "$BUILD" > "$WORK/rehearsal" 2>&1 || { cat "$WORK/rehearsal" >&2; give_up "the rehearsal does not hold"; }
grep ': killed after' "$WORK/rehearsal"
killed=$(grep -c ': killed after .* which are there' "$WORK/rehearsal")

kit="no kit: there is no nvcc here" bytes=0
if [ "$QUICK" = 1 ]; then
	kit="QUICK: no kit" && echo "$kit"
elif command -v nvcc > /dev/null; then
	make -s gpu-kit > "$WORK/kit" 2>&1 || { tail -n 20 "$WORK/kit" >&2; give_up "make gpu-kit failed"; }
	tail -n 1 "$WORK/kit"
	bytes=$(stat -c %s build/gpu-kit/weir-gpu-kit.tar.gz)
	kit="a kit of $((bytes >> 20)) MiB"
	# The same from the sources, with ninja and without make.
	mkdir "$WORK/bin" "$WORK/source"
	for program in /usr/bin/* /bin/*; do case ${program##*/} in make | gmake) ;; *) ln -sf "$program" "$WORK/bin" ;; esac done
	git ls-files -z | tar --null -T - -cf - | tar -C "$WORK/source" -xf -
	PATH=$WORK/bin:/usr/local/cuda/bin "$WORK/source/scripts/gpu_kit.sh" kernels "$WORK/made" > "$WORK/without-make" 2>&1 ||
		{ tail -n 20 "$WORK/without-make" >&2; give_up "without make the kernels do not build"; }
	[ -e "$WORK/made/lib/libweir_cuda.so" ] && [ -e "$WORK/made/tests/test_replay" ] || give_up "without make something was not built"
	echo "without make: built by ninja, $(ls "$WORK/made/tests" | wc -l) files of tests"
fi

device="no device here" modes=0 wanted=0
if [ -e /dev/nvidiactl ] || nvidia-smi -L > /dev/null 2>&1; then
	device="on the device"
	for mode in ${LENT:-truth why peers confirm}; do
		wanted=$((wanted + 1))
		tests/bench/gpu/run.sh "$mode" && modes=$((modes + 1))
	done
fi
verdict "$killed == 4 and $bytes < 60 * 2**20 and $modes == $wanted" \
	"$killed of 4 modes run, and killed halfway leave what they measured; $kit; $device, $modes of $wanted modes went well"
