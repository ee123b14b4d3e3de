package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// planOf returns what doctor says of a model.
func planOf(t *testing.T, args ...string) *modelPlan {
	t.Helper()
	var d diagnosis
	if err := json.Unmarshal([]byte(succeed(t, append([]string{"doctor", "--json", "--no-measure"}, args...)...)), &d); err != nil {
		t.Fatal(err)
	}
	return d.Model
}

// A model is packed, and answers, in the memory that doctor says, with no more of it in two places than a
// part of a tensor; the kernel holds it to that.
func TestRunWithinTheLimit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "model.gguf")
	if out, err := exec.Command(program, "bench", "--synth", "qwen3-0.6b:Q2_K", "-o", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args := []string{"-m", file, "-c", "256", "-b", "32", "--weights", "packed"}
	plan := planOf(t, args...)
	if !plan.Fits || plan.Residency != "packed" || plan.Weights < 150e6 {
		t.Fatalf("the plan %+v", plan)
	}
	limit := plan.Total + 48<<20 // with pages of the program and the file, which the kernel may take back
	memory := []string{"--memory", strconv.FormatUint(limit, 10)}
	// The limit on data counts what can be written and is not shared: with the addresses that stacks and Go's heap have
	// beyond its memory.
	data := (limit + 256<<20) / 1024
	run := append(append([]string{"run", "-p", "Once upon a time", "-n", "4", "--temp", "0", "--stats"}, args...), memory...)
	cmd := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -d %d && exec "$0" "$@"`, data), program}, run...)...)
	cmd.Env = cleanEnvironment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	peakOf := func(out []byte) uint64 {
		// The program says it: what the kernel says of a child begins with what its parent, this test, had when it was made.
		_, said, _ := strings.Cut(string(out), "peak memory")
		var megabytes float64
		if n, err := fmt.Sscanf(said, "%f MB", &megabytes); n != 1 {
			t.Fatalf("%v: no peak in %s", err, out)
		}
		return uint64(megabytes * 1e6)
	}
	if peak := peakOf(out); peak > limit || peak < plan.Weights {
		t.Errorf("%d bytes were in memory, want at most %d and at least the weights, %d", peak, limit, plan.Weights)
	}

	// In less memory than its weights it says the same.
	less := plan.Total - plan.Weights/3
	streamed := exec.Command(program, "run", "-p", "Once upon a time", "-n", "4", "--temp", "0", "--stats", "-m", file, "-c", "256", "-b", "32", "--memory", strconv.FormatUint(less, 10))
	streamed.Env = cleanEnvironment()
	again, err := streamed.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, again)
	}
	text, _, _ := strings.Cut(string(out), "\n")
	if peak := peakOf(again); peak > less+48<<20 || peak > limit-20e6 || !strings.HasPrefix(string(again), text) {
		t.Errorf("streamed: %d bytes in %d, said %s, want %s", peak, less, again, out)
	}

	// What does not fit is refused before it is read, and with what would fit.
	for _, tt := range []struct {
		memory uint64
		flags  []string
		want   []string
	}{
		{plan.Weights / 2, nil, []string{"of packed weights", "what would fit: ", "--weights mapped"}},
		{limit, []string{"-c", "8192"}, []string{"of keys and values", "(-c "}},
	} {
		all := append(append(append([]string{"run", "-p", "x"}, args...), tt.flags...), "--memory", strconv.FormatUint(tt.memory, 10))
		cmd := exec.Command(program, all...)
		cmd.Env = cleanEnvironment()
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 {
			t.Errorf("quern %q: %v, %s", all, err, out)
		}
		for _, w := range append(tt.want, "it needs ", "limit are free (--memory)", file) {
			if !strings.Contains(string(out), w) {
				t.Errorf("quern %q said %q, want %q in it", all, out, w)
			}
		}
		if p := planOf(t, append(append(args, tt.flags...), "--memory", strconv.FormatUint(tt.memory, 10))...); p.Fits || len(p.Advice) == 0 {
			t.Errorf("doctor: %+v", p)
		}
	}
}

// ps shows what GET /v1/memory says, to those who have the key, at a socket or a port.
func TestPs(t *testing.T) {
	s := serve(t, "", "--api-key", "a-long-enough-key", "--memory", "500M")
	at := s.socket
	text := succeed(t, "ps", "--host", at, "--api-key", "a-long-enough-key")
	for _, want := range []string{"demo", "of 500.0 MB (--memory), pressure: none", "packed weights", "keys and values", "the program", "threads"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	var u memoryUse
	if err := json.Unmarshal([]byte(succeed(t, "ps", "--json", "--host", at, "--api-key", "a-long-enough-key")), &u); err != nil || u.Limit != 500e6 || len(u.Models) != 1 {
		t.Errorf("%+v, %v", u, err)
	}
	quern(t, "ps", "--host", at).refused(t, 1, at, "401")
	quern(t, "ps", "--host", filepath.Join(t.TempDir(), "none.sock")).refused(t, 1, "no server answers at", "quern serve")
	quern(t, "ps", "--host", "ftp://example.com").refused(t, 2, "--host", "URL")
	if r, err := s.client.Get("http://quern/v1/memory"); err != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v, %v", r, err)
	}
}

// A burst of long prompts, with as little to split in them as can be, leaves a server within its limit: they wait for
// each other, and all are answered.
func TestServeBurstWithinTheLimit(t *testing.T) {
	t.Parallel()
	const limit, requests = 256 << 20, 40
	s, address := loopback(t, "--memory", strconv.Itoa(limit))
	text := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 40_000)
	for path, c := range map[string]struct {
		body   string
		status int
	}{
		"/tokenize":            {`{"content":"` + text + `"}`, http.StatusOK},
		"/v1/chat/completions": {`{"messages":[{"role":"user","content":"` + text + `"}]}`, http.StatusBadRequest},
	} {
		var all sync.WaitGroup
		for range requests {
			all.Go(func() {
				if r, body := exchange(t, address, "POST", path, c.body); r.StatusCode != c.status {
					t.Errorf("%s: %d %.200s", path, r.StatusCode, body)
				}
			})
		}
		all.Wait()
	}
	var memory struct {
		Peak uint64 `json:"resident_peak"`
	}
	if s.read("/v1/memory", &memory); memory.Peak == 0 || memory.Peak > limit+64<<20 { // with pages of the program's file
		t.Errorf("%d bytes were in memory, want at most about %d", memory.Peak, limit)
	}
}
