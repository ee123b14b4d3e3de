// Package include holds the headers between Go and C, for compilers of C. A package that includes them imports it: so
// the go command builds it anew after a change in a header, and vendors the headers with it.
package include

import "embed"

//go:embed *.h
var _ embed.FS
