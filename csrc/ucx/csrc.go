//go:build ucx && !quernlib

package ucx

import _ "github.com/quern-llm/quern/csrc" // the headers: a change in one is a change of this package
