package examples

import (
	"bufio"
	"io"
	"net/http"
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
	if err != nil || len(programs) != len(want)+1 {
		t.Fatalf("%d programs, want %d: %v", len(programs), len(want)+1, err)
	}
	for _, p := range programs {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			if p.Name() == "handler" {
				serves(t, filepath.Join(dir, p.Name()))
				return
			}
			c := exec.Command(filepath.Join(dir, p.Name()))
			c.Stdin = strings.NewReader(want[p.Name()].in)
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), want[p.Name()].out) || len(out) < 20 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// serves starts the server, asks it, and has it end.
func serves(t *testing.T, program string) {
	c := exec.Command(program, "-listen", "127.0.0.1:0")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill() // once it has ended that does nothing
	at, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at = strings.TrimSpace(at)
	for _, one := range []struct {
		user, url, want string
		status          int
	}{
		{"", strings.TrimSuffix(at, "/llm") + "/title", "\n", 200},
		{"", at + "/v1/models", "who are you?", 401},
		{"anna", at + "/v1/models", `"mine"`, 200},
	} {
		r, err := http.NewRequest("GET", one.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if one.user != "" {
			r.SetBasicAuth(one.user, "secret")
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != one.status || !strings.Contains(string(body), one.want) {
			t.Errorf("%s: %d %s, %v", one.url, resp.StatusCode, body, err)
		}
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
