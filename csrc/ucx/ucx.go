//go:build ucx

// Package ucx is C that is compiled with the UCX of a machine, and linked with its static libraries: see "make cluster".
package ucx

// #cgo CFLAGS: -std=c11 -O3 -DNDEBUG -g0 -fPIC -fvisibility=hidden
// #cgo CFLAGS: -I${SRCDIR}/.. -I${SRCDIR}/../../include -include ${SRCDIR}/../base.h
import "C"
