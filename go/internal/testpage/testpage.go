// Package testpage runs tests once more with pages of other sizes, as Arm's systems have them.
package testpage

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/quern-llm/quern/go/platform"
)

// variable is the size that a test program was told to have pages of.
const variable = "QUERN_TEST_PAGE_SIZE"

func init() {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > platform.PageSize {
		platform.PageSize = n
	}
}

// Again runs the tests of this program that match a pattern with pages of 16 KiB, and of 64 KiB. In a program that it started
// it does nothing.
func Again(t *testing.T, pattern string) {
	t.Helper()
	if os.Getenv(variable) != "" {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []string{"16384", "65536"} {
		t.Run(size, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run", pattern, "-test.short", "-test.v")
			cmd.Env = append(os.Environ(), variable+"="+size)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if len(out) < 100 { // "no tests to run"
				t.Fatalf("%q runs no tests: %s", pattern, out)
			}
		})
	}
}
