//go:build quernlib

package kernel

// The library that CMake builds, of which scripts/go.sh says where it is.

// #cgo LDFLAGS: -lquern
// #cgo !windows LDFLAGS: -lm -lpthread
// #cgo windows LDFLAGS: -lsynchronization
import "C"
