#!/usr/bin/env bash
# Every test of the project. A stage whose tools are missing is named in the summary;
# under CI=true, there and for test data that is missing, it is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/stages.sh

scripts/setup.sh test

# Modules that join Quern to frameworks, whose dependencies are theirs alone. Packages are compiled once, for vet and tests.
# A dependency of Eino's stores pointers where cgocheck2 forbids it.
adapters() {
	local dir
	for dir in contrib/quern*; do
		(cd "$dir" && ../../scripts/go.sh vet -race ./... && ../../scripts/go.sh test -race -vet=off ./...) || return
	done
}

# The chart and the examples for Kubernetes, rendered and read without a cluster.
kubernetes() { (cd contrib/kubernetes && go vet ./... && go test -vet=off -count 1 ./...); }

# The C library, and the packages for other languages.
bindings() { make libquern && scripts/test_bindings.sh; }

# Each experiment runs, on little; what it finds so is no result.
lab() {
	local dir status=0
	dir=$(mktemp -d)
	scripts/go.sh run ./bench/lab -quick -python /usr/bin/python3 -out "$dir" || status=1
	rm -rf "$dir"
	return $status
}

# Some epochs of the soak. The seed decides what is asked and which faults come; which requests meet them, the machine.
soak() {
	local dir status=0
	dir=$(mktemp -d)
	scripts/go.sh run ./bench/soak --quern bin/quern --state "$dir/state" --seed 5 --epochs 5 --requests 200 >"$dir/table" || status=1
	((status == 0)) || cat "$dir/table"
	rm -rf "$dir"
	return $status
}

# A static program asks for no loader and for no shared library.
static() {
	local headers
	headers=$(LC_ALL=C readelf --program-headers --dynamic bin/quern) || return
	if grep -E 'INTERP|NEEDED' <<<"$headers"; then
		echo "bin/quern is not static"
		return 1
	fi
	echo "bin/quern is static, $(stat -c %s bin/quern) bytes"
}

# Packages that hand pointers to C, and those besides that several goroutines enter; the longest first, so that none is
# left to run alone.
boundary=(./go/engine/... ./go/model/... ./go/kernel/...)
entered=(. ./go/cmd/libquern ./go/internal/apitest ./go/server ./go/server/ask ./go/server/answer ./go/server/openai ./go/server/llamaserver ./go/server/anthropic ./go/server/ollama
	./go/server/catalog ./go/server/guard ./go/server/host ./go/server/oidc ./go/server/openinference ./go/server/quota ./go/server/telemetry)

stage "build" make all
if ((stage_failed)); then
	summary
	exit
fi
ahead "programs of another module" scripts/outside.sh
arm=
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
	arm=1
	ahead "program, bits and C, Arm under QEMU" scripts/outside.sh arm64
fi
deb=
if scripts/release/deb.sh able; then
	deb=1
	ahead "the package for Debian" scripts/release.sh deb
fi
stage "bin/quern is static" static
stage "the image of bin/quern" scripts/release.sh image
stage "C kernels, native" scripts/check.sh build/csrc/check
if [ "$(uname -m)" = x86_64 ]; then
	stage "loops of products do not spill" scripts/check_spills.py build
else
	skip "loops of products do not spill" "the sets that are looked at are those of x86-64"
fi
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
	stage "golden vectors are current" scripts/golden.py --check
	stage "golden objectives are current" scripts/golden_objectives.py --check
	if [ -d "${QUERN_TESTDATA:-../shared/data}/archs" ]; then
		stage "golden gradients are current" scripts/golden_grad.py --check
	else
		skip "golden gradients are current" "no test data"
	fi
	stage "experiments of the lab, on the demo" lab
else
	skip "golden vectors, objectives and gradients are current" "no NumPy for /usr/bin/python3"
	skip "experiments of the lab, on the demo" "no NumPy for /usr/bin/python3"
fi
if /usr/bin/python3 -c 'import jinja2' 2>/dev/null; then
	stage "golden templates are current" scripts/golden_jinja.py --check go/internal/jinja/testdata/cases.json
else
	skip "golden templates are current" "no jinja2 for /usr/bin/python3"
fi
stage "go vet" scripts/go.sh vet ./...
stage "go test" scripts/go.sh test -vet=off -timeout 40m ./...
for mpi in openmpi mpich; do
	if command -v mpicc.$mpi >/dev/null && command -v mpirun.$mpi >/dev/null; then
		stage "ranks over MPI, $mpi" make test-mpi MPICC=mpicc.$mpi MPIRUN=mpirun.$mpi
	else
		skip "ranks over MPI, $mpi" "no mpicc.$mpi or mpirun.$mpi (scripts/setup.sh test)"
	fi
done
if [[ $(gcc -print-file-name=libucp.a) == /* ]]; then
	stage "ranks over UCX" make test-cluster
else
	skip "ranks over UCX" "no UCX as static libraries (scripts/setup.sh cluster)"
fi
if [[ $(id -u) != 0 ]] || ! ip netns add quern-test 2>/dev/null; then
	unable "ranks between network namespaces" "not root, or a system without them"
else
	ip netns del quern-test
fi
stage "everything at once, with faults" soak
stage "adapters, each in a module of its own" adapters
stage "chart, KServe and endpoint picker" kubernetes
if command -v node >/dev/null && /usr/bin/python3 -c 'import ensurepip, numpy' 2>/dev/null; then
	stage "libquern from C, Python and Node" bindings
else
	skip "libquern from C, Python and Node" "no Node, or no venv or NumPy for /usr/bin/python3"
fi
data=${QUERN_TESTDATA:-../shared/data} # as go/internal/testdata has it
[[ -d $data ]] || skip "go test, real models" "no test data in $data; QUERN_TESTDATA names its folder"
for browser in chromium chromium-browser google-chrome-stable google-chrome none; do
	! command -v "$browser" >/dev/null || break
done
[[ $browser != none ]] || skip "go test, the chat page" "no Chromium (scripts/setup.sh test)"
# Both checks look at what the program does and neither minds the other: one build and one run do for the two.
stage "models divided among two ranks" env QUERN_TEST_RANKS=2 scripts/go.sh test -vet=off \
	-run 'Media|MTP|Head|Source|Pooling|Shift|Tiers|Disk|Adapters' ./go/engine
stage "go test, races and pointers to C" env GOEXPERIMENT=cgocheck2 scripts/go.sh test -vet=off -timeout 40m -short -race "${boundary[@]}" "${entered[@]}"
finish "programs of another module"
if [[ $arm ]]; then
	finish "program, bits and C, Arm under QEMU"
else
	skip "Arm under QEMU" "no aarch64-linux-gnu-gcc or no qemu-aarch64"
fi
if [[ $deb ]]; then
	finish "the package for Debian"
else
	unable "the package for Debian" "not root, no dpkg-deb, or a system without overlays"
fi
summary
