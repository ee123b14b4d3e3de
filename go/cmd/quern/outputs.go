package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// printJSON prints what a command has found, for other programs.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// checkOutputs returns an error if a file that is to be written is one of those that are read: replacing it would destroy the
// only copy of what it holds as soon as a later step fails.
func checkOutputs(written, read []string) error {
	for _, out := range written {
		for _, in := range read {
			if same(in, out) {
				return fmt.Errorf("%s is read and cannot be written at the same time; give another name", out)
			}
		}
	}
	return nil
}

// same reports whether two paths are of one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
