// Package testdata locates the models, vocabularies and malformed files that some tests
// need and that are too large, or not ours, to keep in this repository. QUERN_TESTDATA
// names their folder; by default it is next to the checkout.
package testdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the folder of the test data, even if it does not exist.
func Dir() string {
	if dir := os.Getenv("QUERN_TESTDATA"); dir != "" {
		return dir
	}
	return filepath.Join(root(), "..", "shared", "data")
}

// root returns the folder of go.mod: tests run in the folder of their package, and are compiled without paths.
func root() string {
	dir, _ := os.Getwd()
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// Path returns the path of a file or folder in the test data. If it is missing, the
// test is skipped with a reason; under CI=true it fails, so that the check is not
// silently dropped.
func Path(tb testing.TB, name string) string {
	tb.Helper()
	path := filepath.Join(Dir(), filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("test data missing under CI: %v", err)
		}
		tb.Skipf("no test data: %v (QUERN_TESTDATA names its folder)", err)
	}
	return path
}
