# The front door. On Debian 12, `make run` and `make test` are all one needs: both install what is
# missing first (packages.txt). `make help` lists the targets: it prints the lines of this file that
# have "##" (tests/install/help.sh checks that each target has one).

JOBS ?= $(shell nproc)
SOAK_MINUTES ?= 150
PREFIX ?= /usr/local
PROGRAMS := weir weir-server weir-worker

## JOBS=N            how many compilers and tests run at once (all processors)
## PREFIX=FOLDER     install: where the programs will run from (/usr/local)
## DESTDIR=FOLDER    install: a folder to put PREFIX into, for makers of packages
## SOAK_MINUTES=N    soak: how long it takes, together (150)
## CLAIMS="A B:3"    claims: only those of tests/claims/A, and line 3 of tests/claims/B
## QUICK=0           claims: in full, which takes hours

.PHONY: all help programs run check test claims bench soak soak-fuzz soak-sim soak-chaos soak-memory install arrow bundle wheel gpu-kit \
	image format tidy clean packages-run packages-test packages-image packages-python packages-containers
all: programs ## the same as programs

help: ## list the targets
	@awk -f scripts/make_help.awk Makefile

programs: ## build build/weir, build/weir-server and build/weir-worker
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build build -j $(JOBS) --target $(PROGRAMS) weir_device

run: packages-run ## train config/demo.yaml on two servers and two workers, then a plain model
	@$(MAKE) --no-print-directory programs
	@scripts/demo.sh

check: packages-test ## build the programs and run the unit tests: while you work
	@JOBS=$(JOBS) scripts/check.sh

test: packages-test ## run every test: as released, under sanitizers, with clang's warnings
	@JOBS=$(JOBS) scripts/test.sh

claims: packages-test ## try every claim of tests/claims in its short form, and print a table
	@scripts/claims.sh $(CLAIMS)

bench: packages-run ## measure this machine, and Weir on it
	@$(MAKE) --no-print-directory programs
	@scripts/bench.sh

soak: packages-test ## fuzz, simulate, kill programs and watch memory for SOAK_MINUTES
soak-fuzz: packages-test ## of soak only the fuzzing, for all of the time
soak-sim: packages-test ## of soak only the simulated jobs
soak-chaos: packages-test ## of soak only the programs that are killed
soak-memory: packages-test ## of soak only the memory
soak soak-fuzz soak-sim soak-chaos soak-memory:
	@JOBS=$(JOBS) SOAK_MINUTES=$(SOAK_MINUTES) scripts/soak.sh $(filter-out soak,$(@:soak-%=%))

install: packages-run ## install programs, libweir, man pages and completion below PREFIX
	@$(MAKE) --no-print-directory programs
	@cmake --build build -j $(JOBS) --target weir_shared weir_manual
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(abspath $(PREFIX))"

arrow: packages-run packages-python ## make the plug-in that reads Parquet and Arrow files, with PyPI's pyarrow
	@JOBS=$(JOBS) scripts/arrow.sh

# With the CUDA backend where nvcc is.
bundle: packages-image ## make an archive of programs and their libraries, for other machines
	@$(MAKE) --no-print-directory programs
	@cmake --build build -j $(JOBS) --target weir_shared
	@scripts/bundle.sh

wheel: packages-run packages-image packages-python ## make a wheel of the Python package, for pip
	@$(MAKE) --no-print-directory programs
	@cmake --build build -j $(JOBS) --target weir_python
	@scripts/wheel.sh

gpu-kit: packages-image ## make what tests and measures on a machine with a GPU (tests/bench/gpu/README.md)
	@$(MAKE) --no-print-directory programs
	@cmake --build build -j $(JOBS) --target weir_shared
	@JOBS=$(JOBS) scripts/gpu_kit.sh

image: packages-containers packages-python ## make the images of docker/ as archives, with buildah
	@scripts/image.sh

format: ## format all sources with clang-format
	git ls-files '*.c' '*.h' '*.cu' '*.cpp' '*.cc' | xargs clang-format -i

tidy: ## show what clang-tidy says of all sources
	git ls-files '*.c' | xargs -P $(JOBS) -n 8 clang-tidy -p build --quiet

clean: ## delete build/
	rm -rf build

packages-run: ## install the Debian packages that building and running need
	@scripts/packages.sh run

packages-test: ## install those that the tests need
	@scripts/packages.sh run test

packages-image: ## install those that bundles need
	@scripts/packages.sh run image

packages-python: ## install those that the wheel needs
	@scripts/packages.sh python

packages-containers: ## install those that images need
	@scripts/packages.sh containers
