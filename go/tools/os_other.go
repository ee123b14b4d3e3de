//go:build !linux

package tools

import "runtime"

// osName says which system this is.
func osName() string { return runtime.GOOS }
