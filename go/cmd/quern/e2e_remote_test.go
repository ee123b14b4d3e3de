package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// nothingStored checks that a cache of models is empty.
func nothingStored(t *testing.T, env []string) {
	t.Helper()
	dir := strings.TrimPrefix(env[2], "QUERN_MODEL_CACHE=")
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("the cache has %d entries, the first %s", len(entries), entries[0].Name())
	}
}

// A model is read from its server into memory: it says what the file says, each byte comes once, and nothing is stored.
func TestRemote(t *testing.T) {
	b := demo.GGUF()
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": b})
	env := s.environment(t)
	with := func(args ...string) result { return invocation{args: args, env: env}.run(t) }
	text := []string{"run", "-p", "The dog", "--temp", "0", "-n", "8"}
	want := succeed(t, append(text, "-m", "demo")...)
	address := s.URL + "/org/repo/resolve/c0ffee/tiny-Q4_K_M.gguf"
	for _, name := range []string{"hf.co/org/repo", "ollama.com/tiny", address, address + "?signed=secret"} {
		s.sent.Store(0)
		r := with(append(text, "-m", name, "--remote")...)
		if r.code != 0 || r.stdout != want {
			t.Errorf("%s: exit code %d, %q, %s", name, r.code, r.stdout, r.stderr)
		}
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s: %s", name, r.stderr)
		}
		if said := strings.Contains(r.stderr, "its sha256 was not compared: nothing says"); said != strings.HasPrefix(name, "http") {
			t.Errorf("%s: %q", name, r.stderr)
		}
		if n := s.sent.Load(); n > int64(len(b))+2_000 {
			t.Errorf("%s: %d bytes came of %d", name, n, len(b))
		}
		nothingStored(t, env)
	}
	with(append(text, "-m", "hf.co/org/repo", "--remote", "--weights", "mapped")...).refused(t, 1, "hf.co/org/repo", "quern pull")
	with(append(text, "-m", "hf.co/org/repo", "--remote", "--offline")...).refused(t, 1, "--offline")
	with(append(text, "-m", address+"x", "--remote")...).refused(t, 1, "404")
	if r := with("bench", "-m", "hf.co/org/repo", "--remote", "-p", "8", "-n", "0", "-r", "1", "--no-warmup"); r.code != 0 {
		t.Errorf("bench: %d %s", r.code, r.stderr)
	}

	server := serveWith(t, env, "", "-m", "one=hf.co/org/repo", "--remote", "--sleep-idle-seconds", "1")
	ask := func(model string) (int, string) {
		code, v := server.post("/v1/completions", `{"model":"`+model+`","prompt":"The dog","temperature":0,"max_tokens":8}`)
		choices, _ := v["choices"].([]any)
		if len(choices) == 0 {
			return code, ""
		}
		text, _ := choices[0].(map[string]any)["text"].(string)
		return code, strings.TrimSpace(text)
	}
	_, first := ask("one")
	if !strings.Contains(want, first) || first == "" {
		t.Errorf("the server says %q, want %q", first, want)
	}
	server.until("one sleeping")
	if _, again := ask("one"); again != first {
		t.Errorf("awake again it says %q, want %q", again, first)
	}
	nothingStored(t, env)

	presets := filepath.Join(t.TempDir(), "presets.ini")
	if err := os.WriteFile(presets, []byte("[two]\nmodel = "+address+"\n[three]\nmodel = demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server = serveWith(t, env, "", "--models-preset", presets, "--remote")
	if _, got := ask("two"); got != first {
		t.Errorf("a preset says %q, want %q", got, first)
	}
	before := s.sent.Load()
	if code, _ := ask(address); code != 404 || s.sent.Load() != before {
		t.Errorf("what only a client names: status %d, %d bytes", code, s.sent.Load()-before)
	}
}

// A server that sends no parts of files is refused, unless a download is agreed to.
func TestRemoteWhole(t *testing.T) {
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": demo.GGUF()})
	s.plain = true
	env := s.environment(t)
	text := []string{"run", "-p", "The dog", "--temp", "0", "-n", "8", "--remote", "-m", s.URL + "/org/repo/resolve/c0ffee/tiny-Q4_K_M.gguf"}
	r := invocation{args: text, env: env}.run(t)
	r.refused(t, 1, "the server sends no parts of it", "quern pull")
	nothingStored(t, env)
	r = invocation{args: append(text, "--yes"), env: env}.run(t)
	if want := succeed(t, "run", "-p", "The dog", "--temp", "0", "-n", "8", "-m", "demo"); r.code != 0 || r.stdout != want {
		t.Errorf("exit code %d, %q, %s", r.code, r.stdout, r.stderr)
	}
}
