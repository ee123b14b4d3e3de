//go:build !quernlib

package kernel

// #cgo !windows LDFLAGS: -lm -lpthread
// #cgo windows LDFLAGS: -lapi-ms-win-core-synch-l1-2-0
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
