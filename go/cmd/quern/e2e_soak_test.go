package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Twenty seconds of everything at once, by the load generator: conversations with a
// common beginning, long prompts between short ones, clients that go away,
// bodies that are nonsense, and memory that is too short for all of it. Each
// text is what the same request gets alone, memory does not grow, no block is lost.
func TestServeSoak(t *testing.T) {
	t.Parallel()
	took := 20 * time.Second
	if testing.Short() {
		took = 5 * time.Second
	}
	load := filepath.Join(t.TempDir(), "load")
	if out, err := exec.Command("go", "build", "-o", load, "../../../bench/load").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	s := serve(t, "TinyStories-656K-f32.gguf", "--host", "127.0.0.1", "--port", "0", "--chat-template", "chatml",
		"--parallel", "8", "--queue", "16", "--kv-memory", "4M")
	run := func(d time.Duration, more ...string) string {
		args := append([]string{
			"--url", s.address(), "--duration", d.String(), "--rate", "40", "--prompt-words", "lognormal:15,0.6,40",
			"--max-tokens", "lognormal:30,0.6,80", "--temperature", "0", "--shared-prefix", "20", "--prefix-share", "0.6", "--turns", "uniform:1-2",
			"--think-ms", "50", "--cancel-share", "0.3", "--cancel-after-ms", "uniform:1-8", "--bad-share", "0.1",
			"--intruder", "2s:90", "--allow-status", "429", "--timeout", "2m", "--topic", "", "--results", t.TempDir(),
		}, more...)
		out, err := exec.Command(load, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("load: %v\n%s", err, out)
		}
		return string(out)
	}
	run(3 * time.Second) // until everything has been touched
	before := residentKiB(t, s.cmd.Process.Pid)
	report := run(took, "--verify", "200")
	for tries := 1; ; tries++ {
		after := residentKiB(t, s.cmd.Process.Pid)
		grown := after - before
		if grown <= 16<<10 {
			break
		}
		if tries == 3 { // the collector may let the heap grow, but not again and again
			t.Errorf("resident memory grew by %d KiB, from %d, and as much before", grown, before)
			break
		}
		before = after
		run(took)
	}
	used := func() float64 { return s.metric(`quern_kv_bytes{state="used"}`) }
	running := func() float64 { return s.metric("llamacpp:requests_processing") }
	if !s.eventually(func() bool { return used() == 0 && running() == 0 }) { // those that were cancelled last end
		t.Errorf("%g bytes of KV are in use and %g requests run, with nobody there", used(), running())
	}
	for _, name := range []string{"quern_evicted_kv_blocks_total", "quern_cancellations_total", "quern_prompt_cached_tokens_total"} {
		if s.metric(name) <= 0 {
			t.Errorf("%s is %g: the test does not test that", name, s.metric(name))
		}
	}
	if log := s.log.String(); regexp.MustCompile(`"level":"error"|panic`).MatchString(log) {
		t.Errorf("its log has errors")
	}
	t.Log(report)
}

// residentKiB returns the memory of a process that is in RAM.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n := 0
	fmt.Sscan(rest, &n)
	return n
}
