package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each example runs with the demo model, and says what it is to say.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]struct{ in, out string }{
		"complete": {out: "Once upon a time"},
		"chat":     {in: "Tell me a story.\nAnd then?\n", out: "> "},
		"many":     {out: "100 chats, "},
		"models":   {out: "2 models, "},
		"search":   {out: "  The cat sleeps on the warm stove."},
		"tools":    {},
		"typed":    {out: "Anna was seven when she learned to swim.: "},
	}
	programs, err := os.ReadDir(dir)
	if err != nil || len(programs) != len(want) {
		t.Fatalf("%d programs, want %d: %v", len(programs), len(want), err)
	}
	for _, p := range programs {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			c := exec.Command(filepath.Join(dir, p.Name()))
			c.Stdin = strings.NewReader(want[p.Name()].in)
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), want[p.Name()].out) || len(out) < 20 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
