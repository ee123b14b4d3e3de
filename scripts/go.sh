#!/bin/sh
# The go command, told what the C library holds: scripts/go.sh test ./go/kernel
#
# By itself it does not notice a change inside a C library or its header, and answers
# "(cached)" or leaves the old program in place. So a hash of both goes into the linker's
# flags, as a macro that no source reads: those flags are part of the package that has
# import "C", and so of all that is linked with it. (Flags of the compiler leave no trace
# under -trimpath, and nothing is linked again.)
#
# Without the paths of a checkout in them, packages are compiled once for programs, tests and analysers.
#
# The tag quernlib has go/kernel link the library, and not the packages of csrc (docs/building.md).
# QN_TAGS has more, such as mpi (make mpi).
# The other tags take Go's own resolver and user lookup. Those of a static glibc need its shared
# one, and as cgo packages they would be built again with every change in C. (Those of macOS need no cgo,
# and know a resolver for each domain, as VPNs have it.) They leave
# out a codec of gin's that nobody here speaks and that is a quarter of the binary, and grpc's
# trace pages, whose templates would have the linker keep every method of every type: a fifth.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
lib=${QN_LIB:-$root/build/csrc} # another one for another CPU: see scripts/test.sh
stamp=$(cat "$lib/libquern.a" "$root"/include/*.h | sha256sum | cut -c1-15)
stamp=-Dquern_stamp=0x$stamp
tags=netgo,osusergo,nomsgpack,grpcnotrace,quernlib${QN_TAGS:+,$QN_TAGS}
[ "$(go env GOOS)" != darwin ] || tags=${tags#netgo,osusergo,}
GOFLAGS="$(go env GOFLAGS) -trimpath -tags=$tags" \
	CGO_LDFLAGS="-O2 -g -L$lib $stamp" exec go "$@"
