#!/usr/bin/env bash
# Programs of another module (contrib/examples), which have this one as `go get` gives it to its users: packed, without
# the library of CMake, without tags and without the network. They run, and compute the published bits.
#
#	outside.sh [ARCH]    for another architecture, one of them, under QEMU, and the checks of C with what the go command
#	                     made of it
#
# The folder is always the same, and so are the commands: the go command compiles C again only where it changed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
arch=${1:-$(go env GOARCH)}
name=github.com/quern-llm/quern version=v0.0.0
work=$PWD/build/outside-$arch
rm -rf "$work/proxy" "$work/program"
mkdir -p "$work/proxy/$name/@v" "$work/mod"
touch "$work/go.mod" # what lies below is no part of ./... in this module

# The module as a proxy of modules serves it, without the modules inside, and with what is changed here and not committed.
changed=$(git stash create)
git archive --format=zip --prefix="$name@$version/" -o "$work/proxy/$name/@v/$version.zip" "${changed:-HEAD}" . ':!contrib/*'
cp go.mod "$work/proxy/$name/@v/$version.mod"
echo "{\"Version\":\"$version\"}" >"$work/proxy/$name/@v/$version.info"
echo "$version" >"$work/proxy/$name/@v/list"
cp -R contrib/examples "$work/program"

# Its needs are in the cache of modules, which has a proxy's form.
(cd contrib/examples && go mod download)
cache=$(go env GOMODCACHE)/cache/download
export GOMODCACHE=$work/mod GOPROXY=file://$work/proxy,file://$cache GONOSUMDB='*' GOWORK=off
export GOFLAGS='-mod=mod -trimpath -modcacherw'
export GODEBUG=goindex=0 # the index of a module's packages is kept by its version, and this one changes
export CGO_ENABLED=1 GOARCH=$arch
rm -rf "$work/mod/$name@$version" "$work/mod/cache/download/$name"
run=()
if [[ $arch == arm64 && $(uname -m) != aarch64 ]]; then
	export CC=aarch64-linux-gnu-gcc QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
	run=(qemu-aarch64 -cpu max) # max: with dotprod and i8mm
fi

cd "$work/program"
go mod edit -dropreplace "$name"
go get "$name@$version"

# What is vendored has all of C, and where C cannot be compiled there is one line that says so.
go mod vendor
diff <(cd "$work/mod/$name@$version" && find csrc include -name '*.[ch]' ! -path 'csrc/tests/*.c' | sort) \
	<(cd "vendor/$name" && find csrc include -name '*.[ch]' | sort)
without=$(! CGO_ENABLED=0 go build "$name/go/kernel" 2>&1 | grep -v '^#')
[[ $without == *needs_cgo* && $(wc -l <<<"$without") == 1 ]] || { echo "outside: without cgo: $without"; exit 1; }

if ((${#run[@]})); then
	go build -o story ./complete
	"${run[@]}" ./story
else
	go vet ./...
	go test -vet=off ./...
fi
go test -c -vet=off -o verify.test "$name/go/verify"
"${run[@]}" ./verify.test -test.short

if ((${#run[@]})); then
	rm -rf "$work/objects"
	for package in $(go list -deps "$name/go/kernel" | grep "^$name/csrc"); do
		mkdir -p "$work/objects/$package"
		(cd "$work/objects/$package" && ar x "$(cd "$work/program" && go list -export -f '{{.Export}}' "$package")")
	done
	mapfile -t objects < <(find "$work/objects" -name '_x*.o')
	"$CC" -std=c11 -O2 -I"$root/csrc" -I"$root/csrc/tests" -I"$root/include" -include "$root/csrc/base.h" -o "$work/check" \
		"$root"/csrc/tests/*.c "${objects[@]}" -Wl,--wrap=syscall -lm -pthread # as csrc/CMakeLists.txt
	"$root/scripts/check.sh" "${run[@]}" "$work/check" --quick
fi

# A change of a header is one of every folder of C.
stale() { go list -f '{{.Stale}}' "$name/csrc/scalar"; }
[[ $(stale) == false ]]
echo "/* changed */" >>"$work/mod/$name@$version/csrc/tmpl/scan.h"
[[ $(stale) == true ]] || { echo "outside: the go command does not notice that a header changed"; exit 1; }
