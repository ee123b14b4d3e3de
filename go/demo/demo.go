// Package demo embeds a small language model that tells stories, so that the program
// can be tried without a download. README.md is its model card.
package demo

import (
	_ "embed" // for the model
	"unsafe"
)

// Name selects the model in place of a path.
const Name = "demo"

// A string's bytes lie in the program's read-only pages: the kernel reads them
// when they are first touched, shares them between processes, and lets go of them
// when memory is short. The linker puts those of a file at a multiple of 32, which
// is what GGUF gives tensors within the file; a test holds it to that.
//
//go:embed quern-demo.gguf
var file string

// GGUF returns the model's file. It is read-only memory: writing to it is fatal.
func GGUF() []byte { return unsafe.Slice(unsafe.StringData(file), len(file)) }
