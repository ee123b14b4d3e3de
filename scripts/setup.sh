#!/usr/bin/env bash
# Installs what this machine lacks, with apt-get, as root or through sudo.
#
#	scripts/setup.sh [build|cluster|cross|release|test|ci]
#
#	build   a C compiler, CMake, Make
#	cluster also UCX and what it has of RDMA
#	cross   what builds for Windows, macOS and Linux on RISC-V: Zig, whose C compiler has the headers of all, from PyPI
#	        into build/zig; Wine and QEMU, which run programs for the first and the last
#	release Zig, and what packages are made with: the Arm cross compiler, dpkg, pip, npm
#	test    build, cluster and two MPIs, network namespaces, the Arm cross compiler, QEMU, NumPy, Jinja2, venv, Chromium,
#	        and Node with a client (the default)
#	ci      also Clang, clang-format and ShellCheck
#
# Where it cannot install, it names the packages. It fails only if something that
# the build needs is missing; with everything there it takes no time and says nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null; }
have_python() { /usr/bin/python3 -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$1" 2>/dev/null; }

# library FILE: whether the C compiler finds it.
library() { [[ $("${CC:-gcc}" -print-file-name="$1" 2>/dev/null) == /* ]]; }

# The checks, one a line: what is missing, and the Debian packages that have it.
missing_build() {
	have "${CC:-gcc}" || echo "gcc libc6-dev"
	# The binary is static, so it needs libc.a: some systems have it in a package of its own.
	library libc.a || echo libc6-dev
	have cmake || echo cmake
	have make || echo make
}
missing_cluster() {
	library libucp.a || echo libucx-dev
	library libibverbs.a || echo libibverbs-dev
	library libnl-route-3.a || echo libnl-route-3-dev
	library libnuma.a || echo libnuma-dev
}
missing_cross() {
	have zig || have_python ensurepip || echo python3-venv
	[[ $level == release ]] || have qemu-riscv64 || echo qemu-user
	[[ $level == release || $(uname -m) != x86_64 ]] || have wine64 || [[ -x /usr/lib/wine/wine64 ]] || echo wine64
}
missing_arm() {
	have aarch64-linux-gnu-gcc || echo gcc-aarch64-linux-gnu
	[[ $(aarch64-linux-gnu-gcc -print-file-name=libc.a 2>/dev/null) == /* ]] || echo libc6-dev-arm64-cross
}
missing_release() {
	have dpkg-deb || echo dpkg
	have node && have npm || echo nodejs npm
	have_python pip || echo python3-pip
	[[ -e /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
}
missing_test() {
	have ip && have tc || echo iproute2
	have mpicc.openmpi && have mpirun.openmpi || echo openmpi-bin libopenmpi-dev
	have mpicc.mpich && have mpirun.mpich || echo mpich libmpich-dev
	have qemu-aarch64 || echo qemu-user
	have node && have npm || echo nodejs npm
	have_python numpy || echo python3-numpy
	have_python jinja2 || echo python3-jinja2
	have_python ensurepip || echo python3-venv
}
# Apart from the rest: not every system has a package of it, and then apt-get would install none.
missing_browser() {
	have chromium || have chromium-browser || have google-chrome-stable || have google-chrome || echo chromium
}
missing_ci() {
	have clang || echo clang
	have clang-format || echo clang-format
	have shellcheck || echo shellcheck
}

# packages LEVEL: the packages to install for it, each once, on one line.
packages() {
	{
		missing_build
		[[ $1 != cluster && $1 != test && $1 != ci ]] || missing_cluster
		[[ $1 != cross && $1 != release ]] || missing_cross
		[[ $1 != release ]] || missing_release
		[[ $1 != release && $1 != test && $1 != ci ]] || missing_arm
		[[ $1 != test && $1 != ci ]] || missing_test
		[[ $1 != ci ]] || missing_ci
	} | tr ' ' '\n' | sort -u | paste -sd ' '
}

# install PACKAGE...: fails, with a sentence, where this user or system cannot.
install() {
	local root=()
	if ! have apt-get; then
		say "there is no apt-get here; install what Debian calls: $*"
		return 1
	fi
	if [[ $(id -u) != 0 ]]; then
		if have sudo && sudo -n true 2>/dev/null; then
			root=(sudo -n)
		elif have sudo && [[ -t 0 ]]; then
			root=(sudo) # asks for the password
		else
			say "neither root nor sudo here; ask an administrator for the packages: $*"
			return 1
		fi
	fi
	say "installing $*"
	if ! "${root[@]}" apt-get -qq update ||
		! "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null; then
		say "apt-get failed; these packages are missing: $*"
		return 1
	fi
}

# check_go: Debian's Go is too old for go.mod, so there is no package to install.
check_go() {
	local want got
	want=$(awk '$1 == "go" { print $2 }' go.mod)
	if ! have go; then
		say "Go $want or later is missing; install it from https://go.dev/dl and put its bin folder on PATH"
		return 1
	fi
	got=$(cd / && GOTOOLCHAIN=local go version | sed -E 's/^go version go([0-9.]+).*/\1/')
	at_least "$got" "$want" && return
	if at_least "$got" 1.21; then # from 1.21 on, the go command can fetch a newer one
		if [[ $(cd / && go env GOTOOLCHAIN) != local ]]; then
			say "Go $got is older than $want: it downloads that toolchain by itself, once"
			return
		fi
		say "Go $got is older than $want, and GOTOOLCHAIN=local keeps it from fetching that; set GOTOOLCHAIN=auto"
		return 1
	fi
	say "Go $got is older than $want, which go.mod asks for; install it from https://go.dev/dl"
	return 1
}

# at_least VERSION MINIMUM
at_least() { printf '%s\n' "$2" "$1" | sort -VC; }

level=${1:-test}
case $level in
build | cluster | cross | release | test | ci) ;;
*)
	say "no such level: $level; build, cluster, cross, release, test or ci"
	exit 2
	;;
esac

read -ra lacking <<<"$(packages "$level")"
if ((${#lacking[@]})); then
	install "${lacking[@]}" || true # said so; what the build needs is looked at again below
fi
if [[ $level == test || $level == ci ]] && [[ $(missing_browser) ]]; then
	install "$(missing_browser)" || true
fi

# The clients that the tests of the server use; what npm wrote last is its own lock file.
clients() {
	local dir=scripts/clients
	have npm || return 0
	[[ $dir/node_modules/.package-lock.json -nt $dir/package-lock.json ]] && return
	say "installing clients in $dir"
	npm ci --prefix "$dir" --no-audit --no-fund --loglevel=error >/dev/null || say "npm failed; a test of the server will be missing"
}
[[ $level != test && $level != ci ]] || clients

# The compiler for other systems: what is on PATH, or a package of Python's for this folder alone.
install_zig() {
	local want=0.17.1 at=build/zig
	[[ ! -x $at/zig ]] || return 0
	mkdir -p "$at"
	if have zig; then
		ln -sf "$(command -v zig)" "$at/zig"
		return
	fi
	say "installing Zig $want in $at"
	{
		/usr/bin/python3 -m venv "$at/venv" && "$at/venv/bin/pip" -q --disable-pip-version-check install "ziglang==$want" &&
			ln -sf "$("$at/venv/bin/python" -c 'import ziglang; print(ziglang.__path__[0])')/zig" "$at/zig" && return
	} >/dev/null 2>&1
	say "Zig $want cannot be installed from PyPI, and there is none on PATH: programs for Windows, macOS and RISC-V cannot be built"
	return 1
}
[[ $level != cross ]] || install_zig
[[ $level != release ]] || install_zig || true # the release goes on without
check_go
needed=$(packages "$([[ $level == cluster ]] && echo cluster || echo build)")
if [[ $needed ]]; then
	say "the build cannot go on without: $needed"
	exit 1
fi
