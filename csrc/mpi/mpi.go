//go:build mpi

// Package mpi is C that is compiled for the MPI of a machine, by its compiler wrapper: see "make mpi".
package mpi

// #cgo CFLAGS: -std=c11 -O3 -DNDEBUG -g0 -fPIC -fvisibility=hidden
// #cgo CFLAGS: -I${SRCDIR}/.. -I${SRCDIR}/../../include -include ${SRCDIR}/../base.h
import "C"
