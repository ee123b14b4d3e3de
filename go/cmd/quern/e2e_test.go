package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// The tests in e2e*_test.go build the program once, or are given it, and run it as its users do.

// program is the path of what is tested.
var program string

func TestMain(m *testing.M) {
	if os.Getenv(asGreeter) != "" {
		if err := runGreeter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if path := os.Getenv(hangs); path != "" {
		fmt.Fprintln(os.Stderr, runHung(path))
		os.Exit(1)
	}
	if os.Getenv(inSequence) != "" {
		if err := runSequence(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" || flag.Lookup("test.fuzzworker").Value.String() == "true" {
		os.Exit(m.Run()) // of parsers, without the program
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "quern-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "quern")
		if made := os.Getenv("QUERN_TEST_PROGRAM"); made != "" { // by whoever runs few tests: linking it takes longer
			if err := os.Symlink(made, program); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		} else if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// A result is what a run of the program left.
type result struct {
	stdout, stderr string
	code           int
	cpu            time.Duration // that it took, on all CPUs
}

// An invocation is one run of the program.
type invocation struct {
	args    []string
	stdin   string
	env     []string
	limits  string // of the shell, such as ulimit -f 512
	limited bool   // to a gigabyte of memory of its own
}

// memoryLimit is a gigabyte, for the shell.
const memoryLimit = "ulimit -d 1048576"

// quern runs the program with args and an empty standard input.
func quern(t *testing.T, args ...string) result {
	t.Helper()
	return invocation{args: args}.run(t)
}

func (in invocation) run(t *testing.T) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, in.args...)
	if in.limited {
		// The limit on data counts what is written and not shared; the peak of
		// the process would count ours too, from before it became another.
		in.limits = memoryLimit
	}
	if in.limits != "" {
		cmd = exec.CommandContext(ctx, "sh", append([]string{"-c", in.limits + ` && exec "$0" "$@"`, program}, in.args...)...)
	}
	cmd.Env = append(cleanEnvironment(), in.env...)
	cmd.Stdin = strings.NewReader(in.stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("quern %q: %v", in.args, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}

// cleanEnvironment is ours without what configures the program, but for the
// choice of kernels: the tests are run under each.
func cleanEnvironment() []string {
	env := []string{"QUERN_MODEL_CACHE=" + filepath.Join(filepath.Dir(program), "cache")} // an empty one
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, isaVariable+"=") || !strings.HasPrefix(e, "QUERN_") && !strings.HasPrefix(e, "LLAMA_ARG_") {
			env = append(env, e)
		}
	}
	return env
}

// succeed returns the standard output of a run that must go well and say
// nothing else.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	r := quern(t, args...)
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("quern %q: exit code %d, stderr %q; want 0 and nothing", args, r.code, r.stderr)
	}
	return r.stdout
}

// refused checks that a run ended with code, said nothing on standard output,
// and one line on standard error that has each of words in it.
func (r result) refused(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("got exit code %d, want %d; stderr %q", r.code, code, r.stderr)
	}
	if r.stdout != "" {
		t.Errorf("got standard output %.200q, want none", r.stdout)
	}
	if !strings.HasPrefix(r.stderr, "quern: ") || strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		t.Errorf("got stderr %.500q, want one line that begins with \"quern: \"", r.stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.stderr, w) {
			t.Errorf("got stderr %q, want %q in it", r.stderr, w)
		}
	}
}

// modelPath returns the path of a model in the test data, or the name of the one
// inside the program: with that, tests need no data and read real text.
func modelPath(t *testing.T, name string) string {
	t.Helper()
	if name == demo.Name {
		return name
	}
	return testdata.Path(t, "models/"+name)
}

// A reference is a greedy text of an independent implementation.
type reference struct {
	Prompt    string  `json:"prompt"`
	PromptIDs []int32 `json:"prompt_ids"`
	GreedyIDs []int32 `json:"greedy_ids"`
	Text      string  `json:"text"`
	MinGap    float64 `json:"min_top2_gap"` // between the two largest logits, over all steps
}

// references returns the references in a file, by model.
func references(t *testing.T, name string) map[string][]reference {
	t.Helper()
	b, err := os.ReadFile(testdata.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var refs map[string][]reference
	if err := json.Unmarshal(b, &refs); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return refs
}
