package arch

import (
	"os"
	"strings"
	"testing"
)

// README names every architecture.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(readme), "\n") {
		if !strings.HasPrefix(line, "| architectures |") {
			continue
		}
		for _, name := range Names() {
			if !strings.Contains(line, "`"+name+"`") {
				t.Errorf("no %s in %q", name, line)
			}
		}
		return
	}
	t.Error("README has no row of architectures")
}
