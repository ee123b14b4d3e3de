package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/tools"
)

// The server's tools work in their folder, in a sandbox, while it serves a model.
func TestServeTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := tools.Open(dir, nil); err != nil {
		t.Skip(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("treasure"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0", "--tools", "all", "--tools-dir", dir)
	if status, text := s.get("/tools"); status != 200 || !strings.Contains(text, `"tool":"exec_shell_command"`) || !strings.Contains(text, `"tool":"get_info"`) {
		t.Errorf("the list: %d %s", status, text)
	}
	call := func(body, want string) {
		t.Helper()
		address := strings.TrimPrefix(s.address(), "http://")
		r, text := exchange(t, address, "POST", "/tools", body, "Content-Type: application/json")
		if !strings.Contains(text, want) || strings.Contains(text, "treasure") {
			t.Errorf("%s: %d %s, want %s", body, r.StatusCode, text, want)
		}
	}
	call(`{"tool":"write_file","params":{"path":"a/b.txt","content":"one\n"}}`, "file written successfully")
	call(`{"tool":"exec_shell_command","params":{"command":"cat a/b.txt; cat `+secret+`"}}`, `one\n`)
	call(`{"tool":"exec_shell_command","params":{"command":"echo hello"},"stream":true}`, `{"chunk":"hello\n"}`)
	call(`{"tool":"read_file","params":{"path":"`+secret+`"}}`, "is outside of")
	call(`{"tool":"read_file"}`, `"message":"params.path is missing","param":"params"`)
	if data, err := os.ReadFile(filepath.Join(dir, "a", "b.txt")); err != nil || string(data) != "one\n" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if status, v := s.post("/completion", `{"prompt":"Once upon a time","n_predict":4}`); status != 200 {
		t.Errorf("beside tools: %d %v", status, v)
	}
}

func TestToolsRefused(t *testing.T) {
	t.Parallel()
	at := []string{"serve", "-m", demo.Name, "--port", "0", "--host", "127.0.0.1"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--tools", "all"}, "--tools-dir"},
		{[]string{"--tools-dir", t.TempDir()}, "--tools"},
		{[]string{"--tools", "rm", "--tools-dir", t.TempDir()}, "read_file"},
		{[]string{"--tools", "all", "--tools-dir", "/"}, "--tools"},
		{[]string{"--tools", "all", "--tools-dir", t.TempDir(), "--host", "0.0.0.0"}, "no API key"},
		{[]string{"--tools", "all", "--tools-dir", t.TempDir(), "--allowed-hosts", "*"}, "--allowed-hosts"},
		{[]string{"--ui-mcp-proxy", "--host", "0.0.0.0"}, "--ui-mcp-proxy"},
		{[]string{"--tools-runtime", "docker:busybox"}, "sandbox"},
	} {
		quern(t, append(at[:len(at):len(at)], c.args...)...).refused(t, 2, c.want)
	}
}
