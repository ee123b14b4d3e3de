#!/usr/bin/env bash
# What is published, into dist/:
#
#	scripts/release.sh image [VERSION]   a container image of bin/quern, checked
#	scripts/release.sh deb [VERSION]     a package for Debian and Ubuntu of bin/quern, checked
#	scripts/release.sh all [VERSION]     for Linux on amd64 and arm64 archives, libraries, packages for Debian, Python and
#	                                     Node, images; archives and images for Linux on RISC-V; archives for Windows and
#	                                     macOS, with what winget, Scoop and Homebrew are told; bills of materials,
#	                                     provenance, checksums, signatures
#
# The same commit gives the same bytes, with the same compilers. scripts/setup.sh release installs those of other systems; what
# is missing is left out, and said.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-all}
version=${2:-}
[[ $version ]] || version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
native=$(go env GOARCH)
tool=build/release-tool
[[ $what == deb ]] || scripts/go.sh build -o "$tool" ./scripts/release

# pages: the manual and the completions, of the program itself.
pages() {
	rm -rf build/release && mkdir -p build/release/{man/man1,completions}
	QUERN_TEST_PROGRAM=$PWD/bin/quern QUERN_MAN_DIR=$PWD/build/release/man/man1 scripts/go.sh test -count=1 -run '^TestManPages$' ./go/cmd/quern >/dev/null
	bin/quern completion bash >build/release/completions/quern.bash
	bin/quern completion zsh >build/release/completions/_quern
	bin/quern completion fish >build/release/completions/quern.fish
}

# cross ARCH: builds the program for another architecture, and prints its path.
cross() {
	local build=build-$1 cc=aarch64-linux-gnu-gcc
	[[ $1 == arm64 && $native == amd64 ]] || { echo "release: $1 cannot be built on $native" >&2; return 1; }
	command -v "$cc" >/dev/null || { echo "release: no $cc; scripts/setup.sh test installs it" >&2; return 1; }
	cmake -S . -B "$build" --no-warn-unused-cli -DCMAKE_TOOLCHAIN_FILE=scripts/aarch64-toolchain.cmake >/dev/null
	cmake --build "$build" --parallel "$(nproc)" >&2
	GOARCH=$1 CGO_ENABLED=1 CC=$cc QN_LIB=$PWD/$build/csrc scripts/go.sh build \
		-buildvcs="$(git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)" -ldflags "-s -w -X main.version=$version -linkmode external -extldflags -static" -o "$build/quern" ./go/cmd/quern
	echo "$build/quern"
}

# library BINARY ARCH: the C library, and the packages for other languages.
library() {
	local name=quern-$version-linux-$2
	rm -rf "build/release-lib/$name-lib"
	mkdir -p "build/release-lib/$name-lib"
	if [[ $2 == "$native" ]]; then
		scripts/libquern.sh "build/release-lib/$name-lib" "$version"
	else
		GOARCH=$2 CC=aarch64-linux-gnu-gcc QN_LIB=$PWD/build-$2/csrc scripts/libquern.sh "build/release-lib/$name-lib" "$version"
	fi
	GOARCH=$2 scripts/bindings.sh "$1" "build/release-lib/$name-lib" dist "$version"
	cp LICENSE docs/bindings.md "build/release-lib/$name-lib/"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
		-C build/release-lib -c "$name-lib" | gzip -9n >"dist/$name-lib.tar.gz"
}

# package BINARY ARCH: for Debian.
package() { scripts/release/deb.sh build "$1" "$2" "$version" build/release; }

# publish BINARY ARCH [DOCS [SYSTEM]]
publish() {
	local stubs=
	[[ ${4:-} != darwin ]] || stubs=$(scripts/cross.sh stubs)
	"$tool" -binary "$1" -arch "$2" -version "$version" -docs "${3:-}" -system "${4:-linux}" -stubs "$stubs"
}

# others: what Zig compiles. Each program is linked twice, to the same bytes.
others() {
	local at system arch binary
	[[ -x build/zig/zig ]] || { echo "release: no Zig here (scripts/setup.sh release): nothing is made for Windows, macOS and RISC-V" >&2; return; }
	for at in linux/riscv64 windows/amd64 windows/arm64 darwin/arm64 darwin/amd64; do
		system=${at%/*} arch=${at#*/}
		binary=$(scripts/cross.sh program "$system" "$arch" "$version")
		mv "$binary" "$binary.first"
		scripts/cross.sh program "$system" "$arch" "$version" >/dev/null
		cmp "$binary" "$binary.first" || { echo "release: $binary differs when it is linked again" >&2; return 1; }
		rm "$binary.first"
		publish "$binary" "$arch" build/release "$system"
	done
	"$tool" -packages -version "$version"
}

case $what in
image)
	publish bin/quern "$native"
	"$tool" -check -arch "$native" -version "$version"
	# The same program gives the same bytes.
	rm -rf build/release-again
	"$tool" -binary bin/quern -arch "$native" -version "$version" -out build/release-again >/dev/null
	for file in build/release-again/quern-*; do
		cmp "$file" "dist/${file##*/}" || { echo "release: ${file##*/} differs when it is made again" >&2; exit 1; }
	done
	rm -rf build/release-again
	;;
deb)
	pages
	package bin/quern "$native"
	scripts/release/deb.sh check "dist/quern-$version-linux-$native.deb"
	exit
	;;
all)
	rm -rf dist
	pages
	library bin/quern "$native"
	package bin/quern "$native"
	publish bin/quern "$native" build/release
	"$tool" -check -arch "$native" -version "$version"
	if [[ $native == amd64 ]]; then
		binary=$(cross arm64)
		library "$binary" arm64
		package "$binary" arm64
		publish "$binary" arm64 build/release
	fi
	others
	"$tool" -index -version "$version"
	(cd dist && sha256sum --quiet --check SHA256SUMS)
	scripts/release/sign.sh dist "$version"
	;;
*)
	echo "release: $what: want image, deb or all" >&2
	exit 2
	;;
esac
# serves ENGINE: starts the image's server as it is deployed, without a file to write, capabilities and much memory, until
# its health check succeeds, and stops it.
serves() {
	local id status
	id=$("$1" run -d --read-only --memory 1g --cap-drop ALL --security-opt no-new-privileges "quern:$version")
	for _ in {1..120}; do
		! "$1" exec "$id" /quern health >/dev/null 2>&1 || break
		sleep 0.5
	done
	if ! "$1" exec "$id" /quern health; then
		"$1" logs "$id" >&2
		"$1" rm -f "$id" >/dev/null
		return 1
	fi
	"$1" stop "$id" >/dev/null
	status=$("$1" inspect --format '{{.State.ExitCode}}' "$id")
	"$1" rm "$id" >/dev/null
	[[ $status == 0 ]] || { echo "release: the server in quern:$version ended with status $status" >&2; return 1; }
}

# Where there is an engine, what it makes of the Dockerfile is run too. Images of podman's and buildah's own format have no
# health check.
for engine in docker podman buildah; do
	"$engine" info >/dev/null 2>&1 || continue # not there, or its daemon is not
	format=()
	[[ $engine == docker ]] || format=(--format docker)
	"$engine" build "${format[@]}" -f scripts/release/Dockerfile --build-arg "TARGETARCH=$native" -t "quern:$version" dist
	if [[ $engine != buildah ]]; then
		status=0
		"$engine" run --rm --read-only "quern:$version" version || status=$?
		case $status in
		0) serves "$engine" ;;
		125 | 126) # its own: the program's are others, and it was run above, without an engine
			echo "release: $engine builds images but runs none here: quern:$version was not run by it" >&2 ;;
		*) exit "$status" ;;
		esac
	fi
	break
done
[[ $what != all ]] || rm -rf dist/root-* # what images were made of
