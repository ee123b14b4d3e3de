package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// checkApart is checkOutputs where files are written together, and folders are read: two that are written are not one file, and
// none is where all files of a folder are read, which would have it the next time.
func checkApart(written, read []string) error {
	if err := checkOutputs(written, read); err != nil {
		return err
	}
	for i, a := range written {
		for _, b := range written[:i] {
			if same(a, b) || unlinked(a) == unlinked(b) {
				return fmt.Errorf("%s would be written twice; give two names", a)
			}
		}
		for _, dir := range read {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && isIn(dir, a) {
				return fmt.Errorf("%s would be among the files that are read from %s; write it elsewhere", a, dir)
			}
		}
	}
	return nil
}

// unlinked is the path of a file that may not be there yet, without links.
func unlinked(path string) string {
	path, _ = filepath.Abs(path) // an error is of a folder that is gone: then nothing can be written
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// isIn reports whether a file is in a folder, or in one of it, as files are read from it: hidden ones are not.
func isIn(dir, path string) bool {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return false // the folder cannot be read either
	}
	inside, err := filepath.Rel(dir, unlinked(path))
	hidden := func(part string) bool { return strings.HasPrefix(part, ".") } // or the folder itself, or one above it
	return err == nil && !slices.ContainsFunc(strings.Split(inside, string(filepath.Separator)), hidden)
}
