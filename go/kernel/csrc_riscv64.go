//go:build cgo && !quernlib

package kernel

import _ "github.com/quern-llm/quern/csrc/riscv"
