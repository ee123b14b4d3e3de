package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
)

// An auditLine is a line of --audit-log.
type auditLine struct {
	Time                                                    time.Time
	Request, Client, Address, Method, Route, Model, Outcome string
	Status                                                  int
	Batch                                                   bool
	Input                                                   int     `json:"input_tokens"`
	Output                                                  int     `json:"output_tokens"`
	Duration                                                float64 `json:"duration_ms"`
}

// audited waits for the lines of a file, n of them that are not of GET.
func audited(t *testing.T, path string, n int) (list []auditLine) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		list = nil
		for line := range strings.Lines(string(b)) {
			var one auditLine
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			if one.Method != "GET" {
				list = append(list, one)
			}
		}
		if len(list) >= n {
			return list
		}
	}
	t.Fatalf("%s has %+v, want %d lines", path, list, n)
	return nil
}

// Each request has a line, whatever became of it, with no word of what it said; a file that is renamed is followed.
func TestServeAuditLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s, address := loopback(t, "--api-key-file", keyFile(t, "key-of-web name=web rpd=3\nkey-of-other\n"), "--audit-log", path, "--batch-dir", t.TempDir())
	ask := func(key, path, body string) {
		t.Helper()
		exchange(t, address, "POST", path, body, "X-Api-Key: "+key, "X-Request-Id: id-of-it")
	}
	ask("key-of-web", "/v1/completions", `{"prompt":"Sesame opens","max_tokens":3,"ignore_eos":true}`)
	ask("key-of-web", "/completion", `{"prompt":"Sesame","n_predict":4,"ignore_eos":true,"stream":true}`)
	ask("key-of-web", "/v1/completions", `{"prompt":"Sesame","temperature":"Sesame"}`)
	ask("key-of-web", "/v1/embeddings", `{"input":"Sesame"}`)
	ask("key-of-nobody", "/v1/completions?q=Sesame", `{}`)
	ask("key-of-other", "/v1/responses/Sesame/cancel", `{}`)
	lines := audited(t, path, 6)
	for i, want := range []auditLine{
		{Client: "web", Route: "/v1/completions", Model: "demo", Status: 200, Outcome: "length", Output: 3},
		{Client: "web", Route: "/completion", Model: "demo", Status: 200, Outcome: "length", Output: 4},
		{Client: "web", Route: "/v1/completions", Model: "demo", Status: 400},
		{Client: "web", Route: "/v1/embeddings", Model: "demo", Status: 429},
		{Route: "/v1/completions", Status: 401},
		{Client: lines[5].Client, Route: "/v1/responses/:id/cancel", Status: 404},
	} {
		got := lines[i]
		if got.Input == 0 && got.Output > 0 || got.Duration <= 0 || time.Since(got.Time).Abs() > time.Minute || len(lines[5].Client) != 8 {
			t.Errorf("line %d: %+v", i, got)
		}
		want.Time, want.Input, want.Duration, want.Request, want.Address, want.Method = got.Time, got.Input, got.Duration, "id-of-it", "127.0.0.1", "POST"
		if got != want {
			t.Errorf("line %d is %+v, want %+v", i, got, want)
		}
	}
	b := s.batches("key-of-other")
	b.ended(b.begin(batchLine("a", "Sesame", 2)).ID)
	lines = audited(t, path, 9) // of the upload, of the batch, and of its request, which may be done before the batch is answered
	at := slices.IndexFunc(lines, func(l auditLine) bool { return l.Batch })
	if at < 6 {
		t.Fatalf("no line of a batch's request: %+v", lines[6:])
	}
	if one := lines[at]; one.Client != lines[5].Client || one.Status != 200 || one.Output == 0 || one.Route != "/v1/completions" {
		t.Errorf("the batch's is %+v", one)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "Sesame") || strings.Contains(string(text), "key-of") {
		t.Errorf("%v, there are texts or keys in %s", err, text)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Mode() == 0o600 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("there is no new file")
		}
	}
	ask("key-of-other", "/v1/completions", `{"prompt":"Sesame","max_tokens":1}`)
	audited(t, path, 1)
}

// What is no file is refused at the start.
func TestServeAuditLogRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{t.TempDir(), "/dev/null"} {
		quern(t, "serve", "-m", demo.Name, "--port", "0", "--audit-log", path).refused(t, 2, "--audit-log: ", path)
	}
}
