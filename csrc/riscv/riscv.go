//go:build riscv64 && !quernlib

// Package riscv is C: see package csrc.
package riscv

// #cgo CFLAGS: -std=c11 -O3 -DNDEBUG -g0 -fPIC -fvisibility=hidden
// #cgo CFLAGS: -I${SRCDIR}/.. -I${SRCDIR}/../../include -include ${SRCDIR}/../base.h
import "C"

import _ "github.com/quern-llm/quern/csrc"
