package vocab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func save(tb testing.TB, dir, name, text string) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// refused holds an error to one line that names what it is about.
func refused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 4000 {
		t.Errorf("%s: %q is no line", what, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

// parseFile reads a GGUF file of the test data.
func parseFile(tb testing.TB, name string) *gguf.File {
	tb.Helper()
	return must(gguf.Parse(must(os.ReadFile(testdata.Path(tb, name)))))
}
