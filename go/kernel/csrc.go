//go:build !quernlib

package kernel

// #cgo !windows LDFLAGS: -lm -lpthread
// #cgo windows LDFLAGS: -lsynchronization
import "C"

import (
	_ "github.com/quern-llm/quern/csrc"
	_ "github.com/quern-llm/quern/csrc/encode"
	_ "github.com/quern-llm/quern/csrc/format"
	_ "github.com/quern-llm/quern/csrc/ops"
	_ "github.com/quern-llm/quern/csrc/platform"
	_ "github.com/quern-llm/quern/csrc/ranks"
	_ "github.com/quern-llm/quern/csrc/run"
	_ "github.com/quern-llm/quern/csrc/scalar"
)
