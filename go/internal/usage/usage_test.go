package usage_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/quern-llm/quern/go/internal/usage"
)

// An error of a file that is not there names the file, however it was looked for.
func TestOneLineOfFiles(t *testing.T) {
	const path = "/nowhere/a\nb.json"
	_, opened := os.Open(path)
	_, asked := os.Stat(path)
	for _, err := range []error{opened, asked} {
		if got, want := usage.OneLine(fmt.Errorf("--config: %w", err)), "--config: /nowhere/a b.json: no such file or directory"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
