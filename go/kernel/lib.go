//go:build quernlib

package kernel

// The library that CMake builds, of which scripts/go.sh says where it is.

// #cgo LDFLAGS: -lquern -lm -lpthread
import "C"
