# Quern's front door.
#
#	make help       this list
#	make            what the build lacks, the C library, bin/quern
#	make run        a story from the demo model inside, or more: MODEL=FILE PROMPT=TEXT N=TOKENS
#	make mpi        bin/quern-mpi, with the MPI of this machine, by MPICC=mpicc: for "serve --ranks mpi", "finetune --ranks mpi"
#	make test-mpi   that with mpirun: the same answers, and what happens when a process is lost
#	make cluster    bin/quern-cluster, with UCX inside: for "serve --ranks host:port" and "rank"
#	make test-cluster   that over this machine's network, and between network namespaces where root can make them
#	make windows    quern.exe for Windows on amd64 and arm64, by Zig's C compiler, into build-windows-amd64/ and -arm64/, looked at
#	make macos      quern for macOS on arm64 and amd64, and the checks of C, likewise: linked and looked at, not run
#	make test-windows   checks of C, tests of Go and the program for Windows, under Wine
#	make test-riscv     quern for Linux on RISC-V, by the same compiler, into build-linux-riscv64/, its kernels and bits, under QEMU
#	make libquern   the C library for other languages, libquern.so and libquern.a with libquern.h, into build/lib/
#	make test       every test, C and Go, with a summary at the end
#	make check      the C kernels, each instruction set against the scalar one
#	make check-clang    the same, compiled by Clang, whose warnings are errors
#	make sanitize   the same under the address and undefined-behaviour sanitizers
#	make bench      tables and plots beside LLAMA_BENCH=PROGRAM, into bench/results/
#	make rivals     a table beside OpenVINO, vLLM, CTranslate2, ONNX Runtime where they are installed: MODELS=a.gguf,b.gguf
#	make soak       hours of everything at once, with faults; a part goes on where the last one ended: HOURS=0.5 SOAK_ARGS=
#	make lint       formatting, go vet, staticcheck, shellcheck
#	make fuzz       every fuzz target for FUZZTIME=30s
#	make mutate     breaks the program in 300 places, one at a time, and says which the tests did not notice (MUTATE='-only sched -v')
#	make lab        the experiments behind docs/theories.md, into bench/results/lab/: LAB=NAME,... MODEL=FILE TEXT=FILE; PYTHON with NumPy
#	make report     one page of all results, into build/report.html
#	make image      a container image of bin/quern, into dist/, started and checked
#	make release    archives, libraries, packages, images, bills of materials and checksums for Linux on three architectures,
#	                Windows and macOS, into dist/
#	make golden     write scripts/golden/ anew; read the diff before you commit it
#	make clean      remove all that was built
#
# Run the go command through scripts/go.sh, which notices changes in C.
BUILD   ?= build
MODEL   ?=
N       ?= $(if $(MODEL),64,-1)
PROMPT  ?= $(if $(MODEL),Once upon a time)
export PROMPT
MAKEFLAGS += --no-print-directory

# Go reads the version from git, where there is a checkout that git reads; a release names it.
VERSION ?=
VCS     := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)
LDFLAGS := -s -w -X main.version=$(VERSION) -linkmode external -extldflags "-static"

.PHONY: help all setup lib lib-asan lib-clang libquern run test test-vm check check-clang sanitize bench rivals soak lab report image release lint fuzz mutate golden clean
.DELETE_ON_ERROR:

all: lib
	CGO_ENABLED=1 scripts/go.sh build -buildvcs=$(VCS) -ldflags '$(LDFLAGS)' -o bin/ ./go/cmd/quern

# The compiler wrapper of the MPI that the program will run with: programs of different ones do not fit each other.
MPICC ?= mpicc
.PHONY: mpi test-mpi
mpi: lib
	CGO_ENABLED=1 QN_TAGS=mpi CC=$(MPICC) scripts/go.sh build -buildvcs=$(VCS) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/quern-mpi ./go/cmd/quern

# The mpirun of that MPI.
MPIRUN ?= mpirun
test-mpi: all mpi
	QUERN_TEST_PROGRAM=$(CURDIR)/bin/quern QUERN_MPI=$(CURDIR)/bin/quern-mpi QUERN_MPIRUN=$(MPIRUN) scripts/go.sh test -count 1 -run TestMPI -v ./go/cmd/quern

# UCX, and what it has of RDMA, as static libraries. Of its own only what has constructors has to be named.
UCX_LIBS = -u ucs_init -u ucp_global_init -L$(dir $(shell $(CC) -print-file-name=libucp.a))ucx -Wl,--start-group \
	-Wl,--whole-archive -luct -luct_ib -Wl,--no-whole-archive -lucp -lucs -lucm \
	-libverbs -lmlx5 -lmlx4 -lbnxt_re-rdmav34 -lirdma-rdmav34 -lefa -lrxe-rdmav34 -lnl-route-3 -lnl-3 -lnuma -Wl,--end-group
.PHONY: cluster test-cluster ucx-libs
ucx-libs:
	@echo '$(UCX_LIBS)'
cluster: lib
	@scripts/setup.sh cluster
	CGO_ENABLED=1 QN_TAGS=ucx scripts/go.sh build -buildvcs=$(VCS) -ldflags '-s -w -X main.version=$(VERSION) -linkmode external -extldflags "-static $(UCX_LIBS) -lpthread -ldl -lrt -lm"' -o bin/quern-cluster ./go/cmd/quern

test-cluster: all cluster
	QUERN_TEST_PROGRAM=$(CURDIR)/bin/quern QUERN_CLUSTER=$(CURDIR)/bin/quern-cluster scripts/go.sh test -count 1 -run TestCluster -v ./go/cmd/quern

# On Linux, for other systems.
.PHONY: windows macos test-windows
windows:
	@scripts/cross.sh program windows amd64 '$(VERSION)'
	@scripts/cross.sh program windows arm64 '$(VERSION)'
	@scripts/cross.sh check windows arm64

macos:
	@scripts/cross.sh program darwin arm64 '$(VERSION)'
	@scripts/cross.sh check darwin arm64
	@scripts/cross.sh program darwin amd64 '$(VERSION)'
	@scripts/cross.sh check darwin amd64

test-windows:
	@scripts/cross.sh lib windows amd64
	@scripts/cross.sh check windows amd64
	@scripts/cross.sh tests windows amd64

.PHONY: test-riscv
test-riscv: all
	@scripts/cross.sh program linux riscv64
	@scripts/cross.sh check linux riscv64

help:
	@sed -n 's/^#\tmake/make/p' Makefile

setup:
	@scripts/setup.sh build

# One at a time in a folder: scripts that run many checks begin with it in the background. What was built in another
# folder, of which this is a copy, has the paths of that in it: it is built anew.
lib: setup
	@mkdir -p $(BUILD)
	@flock -n $(BUILD)/.lock true || echo "waiting for the build of $(BUILD) that another process has begun"
	@flock $(BUILD)/.lock sh -c 'was=$$(sed -n s/^CMAKE_CACHEFILE_DIR:INTERNAL=//p $(BUILD)/CMakeCache.txt 2>/dev/null); \
		[ -z "$$was" ] || [ "$$was" -ef $(BUILD) ] || find $(BUILD) -mindepth 1 ! -name .lock -delete; \
		cmake -S . -B $(BUILD) --no-warn-unused-cli $(CMAKE_ARGS) >/dev/null && \
		cmake --build $(BUILD) --parallel $(shell nproc)'

# The library and its checks for other processors, by other compilers, with other options.
lib-asan:
	@$(MAKE) lib BUILD=build-asan CMAKE_ARGS='-DQN_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug'
lib-clang:
	@$(MAKE) lib BUILD=build-clang CC=clang CMAKE_ARGS=-DCMAKE_COMPILE_WARNING_AS_ERROR=ON

# The kernels' own library is build/csrc/libquern.a, which is a part of this one.
libquern: lib
	scripts/libquern.sh $(BUILD)/lib '$(VERSION)'

run: all
	bin/quern run $(if $(MODEL),-m '$(MODEL)') -p "$$PROMPT" -n $(N) --stats

test:
	@scripts/test.sh

# What needs several NUMA nodes, in a virtual machine.
test-vm: lib
	@BUILD=$(BUILD) scripts/test_vm.sh

check: lib
	@scripts/check.sh $(BUILD)/csrc/check

sanitize: lib-asan
	@scripts/check.sh build-asan/csrc/check

check-clang: lib-clang
	@scripts/check.sh build-clang/csrc/check

bench: all
	scripts/go.sh run ./bench/compare $(BENCH_ARGS)

rivals: all
	bench/rivals/run.sh $(BENCH_ARGS)

HOURS ?= 0.5
soak: all
	scripts/go.sh run ./bench/soak --hours $(HOURS) --state $(BUILD)/soak --quern bin/quern $(SOAK_ARGS)

# Results of a model are those of a text that it may know: without TEXT, of small stories.
PYTHON ?= python3
TEXT   ?=
LAB    ?=
lab: all
	scripts/go.sh run ./bench/lab -python '$(PYTHON)' -lab '$(LAB)' -m '$(MODEL)' -text '$(TEXT)' $(LAB_ARGS)
	scripts/go.sh run ./bench/lab -page

report:
	go run ./bench/report -o $(BUILD)/report.html bench/results

image: all
	@scripts/release.sh image '$(VERSION)'

release: all
	@scripts/setup.sh release
	@scripts/release.sh all '$(VERSION)'

lint: lib
	@scripts/lint.sh

fuzz: lib
	@scripts/fuzz.sh

mutate: lib
	scripts/go.sh run ./scripts/mutate $(MUTATE)

golden:
	scripts/golden.py

clean:
	rm -rf bin build build-* dist
