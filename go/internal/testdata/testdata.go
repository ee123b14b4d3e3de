// Package testdata finds the real models, vocabularies and hostile files that
// some tests need and that are too large, or not ours, to keep in this
// repository. QUERN_TESTDATA names their folder; the default lies beside the
// checkout.
package testdata

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Dir returns the folder of the test data, whether or not it exists.
func Dir() string {
	if dir := os.Getenv("QUERN_TESTDATA"); dir != "" {
		return dir
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "shared", "data")
}

// Path returns the path of one file or folder in the test data. Where it is
// missing the test is skipped with a reason; under CI=true it fails, so that
// no run passes by not looking.
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
