// Package demo embeds two small language models, so that the program can be tried without a download: one tells stories,
// the other names what is in a picture. README.md is their model card.
package demo

import (
	_ "embed" // for the models
	"unsafe"
)

// The names that select the models in place of a path.
const (
	Name   = "demo"
	Vision = "demo-vision"
)

// A string's bytes lie in the program's read-only pages: the kernel reads them
// when they are first touched, shares them between processes, and lets go of them
// when memory is short. The linker puts those of a file at a multiple of 32, which
// is what GGUF gives tensors within the file; a test holds it to that.
var (
	//go:embed quern-demo.gguf
	stories string
	//go:embed quern-demo-vision.gguf
	vision string
	//go:embed mmproj-quern-demo-vision.gguf
	projector string
)

// Is reports whether a name selects an embedded model.
func Is(name string) bool { return name == Name || name == Vision }

// GGUF returns the file of the model that tells stories. Like all of the package's files it is read-only memory:
// writing to it is fatal.
func GGUF() []byte { return bytes(stories) }

// File returns the file of the embedded model called name, which Is reports.
func File(name string) []byte {
	if name == Vision {
		return bytes(vision)
	}
	return GGUF()
}

// Projector returns the file of the encoder that goes with the embedded model called name; nil: it has none.
func Projector(name string) []byte {
	if name == Vision {
		return bytes(projector)
	}
	return nil
}

func bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
