// Package testdata locates the models, vocabularies and malformed files that some tests
// need and that are too large, or not ours, to keep in this repository. QUERN_TESTDATA
// names their folder; by default it is next to the checkout.
package testdata

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Dir returns the folder of the test data, even if it does not exist.
func Dir() string {
	if dir := os.Getenv("QUERN_TESTDATA"); dir != "" {
		return dir
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "shared", "data")
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
