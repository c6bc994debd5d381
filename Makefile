# The front door. On Debian 12, `make run` and `make test` are all one needs: both install what is missing first (packages.txt).
#
#   make          the release programs: build/weir, build/weir-server, build/weir-worker
#   make run      train config/demo.yaml on two servers and two workers, then logistic regression beside it
#   make test     every test: clang's warnings, release, AddressSanitizer + UBSan, ThreadSanitizer
#   make claims   every claim of tests/claims in its short form, as a table; CLAIMS="foundation:3 llm" chooses, QUICK=0 is in full
#   make bench    measure this machine and Weir on it
#   make soak     SOAK_MINUTES (150) of fuzzing, simulated jobs, programs that are killed, memory; soak-fuzz, soak-sim, soak-chaos, soak-memory: all the time for one
#   make bundle   a folder and an archive of the programs with their libraries, for other machines; with the CUDA backend where nvcc is
#   make gpu-kit  what is carried to a machine with a GPU to test and measure there (tests/bench/gpu/README.md)
#   make image    the images of docker/ as archives, by buildah: no Docker engine is needed
#   make format | tidy | clean
#
# JOBS is how many compilers and tests run at once.

JOBS ?= $(shell nproc)
SOAK_MINUTES ?= 150
PROGRAMS := weir weir-server weir-worker

.PHONY: all programs run test claims bench soak soak-fuzz soak-sim soak-chaos soak-memory bundle gpu-kit image format tidy clean packages-run packages-test packages-image packages-containers
all: programs

packages-run:
	@scripts/packages.sh run

packages-test:
	@scripts/packages.sh run test

packages-image:
	@scripts/packages.sh run image

packages-containers:
	@scripts/packages.sh containers

programs:
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build build -j $(JOBS) --target $(PROGRAMS) weir_device

run: packages-run
	@$(MAKE) --no-print-directory programs
	@scripts/demo.sh

test: packages-test
	@JOBS=$(JOBS) scripts/test.sh

claims: packages-test
	@scripts/claims.sh $(CLAIMS)

bench: packages-run
	@$(MAKE) --no-print-directory programs
	@scripts/bench.sh

soak soak-fuzz soak-sim soak-chaos soak-memory: packages-test
	@JOBS=$(JOBS) SOAK_MINUTES=$(SOAK_MINUTES) scripts/soak.sh $(filter-out soak,$(@:soak-%=%))

bundle: packages-image
	@$(MAKE) --no-print-directory programs
	@cmake --build build -j $(JOBS) --target weir_shared
	@scripts/bundle.sh

gpu-kit: packages-image
	@$(MAKE) --no-print-directory programs
	@cmake --build build -j $(JOBS) --target weir_shared
	@JOBS=$(JOBS) scripts/gpu_kit.sh

image: packages-containers
	@scripts/image.sh

format:
	git ls-files '*.c' '*.h' '*.cu' '*.cpp' | xargs clang-format -i

tidy:
	git ls-files '*.c' | xargs -P $(JOBS) -n 8 clang-tidy -p build --quiet

clean:
	rm -rf build
