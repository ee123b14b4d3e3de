//go:build !quernlib

// Package csrc is the C sources, which the go command compiles: a program that imports Quern needs Go and a C compiler
// and no other tool. Each folder of sources is a package with the flags below, and go/kernel imports them.
// docs/building.md says why, and what CMake is for, which reads the flags from here.
//
// The go command looks for changes in the folder of a package only, and vendors nothing else. So headers are embedded, in
// a variable that no program has in it: a change in one compiles all folders anew.
package csrc

// #cgo CFLAGS: -std=c11 -O3 -DNDEBUG -g0 -fPIC -fvisibility=hidden
// #cgo CFLAGS: -I${SRCDIR} -I${SRCDIR}/../include -include ${SRCDIR}/base.h
import "C"

import (
	"embed"

	_ "github.com/quern-llm/quern/include"
)

//go:embed *.h */*.h
var _ embed.FS
