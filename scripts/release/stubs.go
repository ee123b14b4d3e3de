package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// stubs are libraries of macOS by the path that programs load them by.
type stubs map[string]exports

// exports has the targets by the names that a library has for them.
type exports map[string][]string

// has reports whether the library has a name on an architecture, in Go's words. Apple's own libraries are of arm64e, for which
// a program of arm64 is as good.
func (e exports) has(name, arch string) bool {
	for _, target := range e[name] {
		if arch == "amd64" && target == "x86_64-macos" || arch == "arm64" && (target == "arm64-macos" || target == "arm64e-macos") {
			return true
		}
	}
	return false
}

var (
	stubName = regexp.MustCompile(`(?m)^install-name:\s*'?([^'\s]+)'?\s*$`)
	stubPart = regexp.MustCompile(`(?s)targets:\s*\[([^\]]*)\]|symbols:\s*\[([^\]]*)\]`) // weak-symbols, too
)

// readStubs reads the text stubs (.tbd, version 4) in folders and below. A file's first library has the names of all that are in
// the file: the others are parts of it.
func readStubs(folders ...string) (stubs, error) {
	all := stubs{}
	for _, dir := range folders {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".tbd" {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name := stubName.FindSubmatch(b)
			if name == nil {
				return fmt.Errorf("%s has no install-name", path)
			}
			names := exports{}
			var targets []string
			for _, part := range stubPart.FindAllStringSubmatch(string(b), -1) {
				if part[1] != "" {
					targets = words(part[1])
				}
				for _, s := range words(part[2]) {
					names[s] = append(names[s], targets...)
				}
			}
			all[string(name[1])] = names
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// words are the entries of a list of a stub.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", '\n\t\r", r) })
}
