//go:build quernlib

package kernel

// The library that CMake builds, of which scripts/go.sh says where it is.

// #cgo LDFLAGS: -lquern
// #cgo !windows LDFLAGS: -lm -lpthread
// #cgo windows LDFLAGS: -lapi-ms-win-core-synch-l1-2-0
import "C"
