package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/quern-llm/quern/go/demo"
)

// clearGap is the smallest lead of the likeliest token, over a whole text, for
// which rounding cannot choose another.
const clearGap = 0.02

func TestGreedyTextMatchesReferences(t *testing.T) {
	checked := 0
	for _, file := range []string{"models/reference_numpy.json", "models/reference_numpy_derived.json"} {
		for name, refs := range references(t, file) {
			if strings.Contains(name, " + ") {
				continue // a model with an adapter
			}
			for _, ref := range refs {
				// The references' empty prompt has a space after BOS, ours has not.
				if ref.Prompt == "" || ref.MinGap <= clearGap {
					continue
				}
				checked++
				t.Run(name+"/"+ref.Prompt, func(t *testing.T) {
					got := succeed(t, "run", "-m", modelPath(t, name), "-p", ref.Prompt, "-n", "64", "--temp", "0", "--ignore-eos")
					if got != ref.Text {
						t.Errorf("got  %q\nwant %q", got, ref.Text)
					}
				})
			}
		}
	}
	if checked < 6 {
		t.Errorf("only %d references could be used", checked)
	}
}

// told returns the likeliest text of the demo after a prompt, as go/demo has it.
func told(t *testing.T, prompt string) string {
	t.Helper()
	b, err := os.ReadFile("../../demo/testdata/greedy.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Prompt, Text string }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		if g.Prompt == prompt {
			return g.Text
		}
	}
	t.Fatalf("there is no text after %q", prompt)
	return ""
}

// story is the run that most tests below use: small, and its text is known.
func story(more ...string) []string {
	return append([]string{"run", "-m", demo.Name, "-p", "Once upon a time", "--temp", "0", "-n", "16"}, more...)
}

func TestTextDoesNotDependOnHowItIsComputed(t *testing.T) {
	want := succeed(t, story()...)
	if text := told(t, "Once upon a time"); want == "" || !strings.HasPrefix(text, want) {
		t.Fatalf("got %q, want the beginning of %q", want, text)
	}
	for _, more := range [][]string{
		{"-t", "1"}, {"-t", "2"}, {"-b", "1"}, {"-b", "3"}, {"--weights", "mapped"}, {"--weights", "packed"},
		{"-c", "64"}, {"-c", "0"}, {"-ctk", "f32", "-ctv", "f32"}, {"-ctk", "q8_0", "-ctv", "i16"}, {"--seed", "7"}, {"--memory", "2G"},
	} {
		if got := succeed(t, story(more...)...); got != want {
			t.Errorf("%v: got %q, want %q", more, got, want)
		}
	}
	r := invocation{args: story(), env: []string{isaVariable + "=scalar"}}.run(t)
	if r.stdout != want || r.code != 0 {
		t.Errorf("scalar: got %q and code %d, want %q", r.stdout, r.code, want)
	}
}

func TestPromptComesFromAFlagAFileOrStandardInput(t *testing.T) {
	want := succeed(t, story()...)
	base := []string{"run", "-m", demo.Name, "--temp", "0", "-n", "16"}
	file := t.TempDir() + "/prompt.txt"
	if err := os.WriteFile(file, []byte("Once upon a time"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{{"-f", file}, {"Once upon a time"}, {"--", "Once upon a time"}} {
		if got := succeed(t, append(base, more...)...); got != want {
			t.Errorf("%v: got %q, want %q", more, got, want)
		}
	}
	for _, args := range [][]string{base, append(base, "-f", "-")} {
		r := invocation{args: args, stdin: "Once upon a time\n"}.run(t)
		if r.stdout != want || r.stderr != "" {
			t.Errorf("%v: got %q and %q, want %q", args, r.stdout, r.stderr, want)
		}
	}
	r := invocation{args: base[:1], stdin: "Once upon a time", env: []string{
		"LLAMA_ARG_MODEL=" + demo.Name, "QUERN_TEMP=0", "LLAMA_ARG_N_PREDICT=16"}}.run(t)
	if r.stdout != want || r.stderr != "" {
		t.Errorf("environment: got %q and %q, want %q", r.stdout, r.stderr, want)
	}
}

// A terminal does not obey what a model says; a pipe gets all of it.
func TestRunOnATerminal(t *testing.T) {
	args := []string{"run", "-m", modelPath(t, demo.Name), "-p", "Once", "--grammar", `root ::= "\x1b]0;evil\x07red\ttext\n"`}
	term := openTerminal(t, "/proc/none", args...)
	term.expect("red")
	term.leaves()
	term.mu.Lock()
	defer term.mu.Unlock()
	if strings.Contains(term.raw, "\x1b]0;") || strings.Contains(term.raw, "\x07") {
		t.Errorf("the terminal got %q", term.raw)
	}
	if out := succeed(t, args...); !strings.Contains(out, "\x1b]0;evil\x07red\ttext\n") {
		t.Errorf("a pipe got %q", out)
	}
}

func TestEmptyPromptIsBOSAlone(t *testing.T) {
	text := told(t, "")
	for _, more := range [][]string{{"-p", ""}, {""}, {"-f", "/dev/null"}, {}} {
		got := succeed(t, append([]string{"run", "-m", demo.Name, "--temp", "0", "-n", "16"}, more...)...)
		if got == "" || !strings.HasPrefix(text, got) {
			t.Errorf("%q: got %q, want the beginning of %q", more, got, text)
		}
	}
}

func TestSeedDecidesTheText(t *testing.T) {
	text := func(seed string) string {
		return succeed(t, "run", "-m", demo.Name, "-p", "One day", "-n", "32", "--temp", "1.5", "--top-k", "0", "--seed", seed)
	}
	a, again, b := text("1"), text("1"), text("2")
	if a != again {
		t.Errorf("seed 1 gave %q and %q", a, again)
	}
	if a == b {
		t.Errorf("seeds 1 and 2 both gave %q", a)
	}
}

// Flags of samplers change the text.
func TestSamplersOfTheCommandLine(t *testing.T) {
	seen := map[string]string{}
	for _, flags := range []string{
		"", "--mirostat 2 --mirostat-ent 2", "--dry-multiplier 20 --dry-allowed-length 0 --dry-sequence-breaker none", "--adaptive-target 0.2", "--samplers infill;temp",
	} {
		args := append([]string{"run", "-m", demo.Name, "-p", "One day, one day, one day", "-n", "24", "--temp", "1.5", "--top-k", "100", "--seed", "5"}, strings.Fields(flags)...)
		text := succeed(t, args...)
		if other, twice := seen[text]; twice {
			t.Errorf("%q and %q both give %q", flags, other, text)
		}
		seen[text] = flags
	}
}

func TestFullContextEndsTheText(t *testing.T) {
	r := quern(t, "run", "-m", demo.Name, "-p", "Once upon a time", "--temp", "0", "-c", "32", "--ignore-eos")
	if r.code != 0 || r.stdout == "" || !strings.HasPrefix(told(t, "Once upon a time"), r.stdout) {
		t.Errorf("got code %d and %q", r.code, r.stdout)
	}
	if strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "context of 32 tokens is full") {
		t.Errorf("got stderr %q, want one line that says so", r.stderr)
	}
}

func TestEndOfTextStops(t *testing.T) {
	args := []string{"run", "-m", demo.Name, "-p", "Once upon a time", "--temp", "0"}
	ended := succeed(t, args...) // silent: the context is not full
	on := quern(t, append(args, "--ignore-eos")...)
	if len(ended) < 100 || len(on.stdout) <= len(ended) || !strings.HasPrefix(on.stdout, ended) {
		t.Errorf("got %q, and %q with --ignore-eos; want more of the same", ended, on.stdout)
	}
	if !strings.Contains(on.stderr, "tokens is full") {
		t.Errorf("got %q with --ignore-eos, want the context to end it", on.stderr)
	}
}

func TestStats(t *testing.T) {
	r := quern(t, story("--stats")...)
	if r.stdout != succeed(t, story()...) {
		t.Errorf("got text %q, want the same as without", r.stdout)
	}
	for _, want := range []string{"load", "first token", "prefill", "decode", "tokens/s", "peak memory"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("got %q, want %q in it", r.stderr, want)
		}
	}
}

func TestContextBeyondTheTraining(t *testing.T) {
	args := story("-n", "4", "-c", "2048")
	if r := quern(t, args...); r.code != 0 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "2048 tokens and the model was trained with 1024") {
		t.Errorf("got code %d and %q", r.code, r.stderr)
	}
	succeed(t, append(args, "--rope-scaling", "yarn", "--rope-scale", "2")...)
}

// endless starts a run that goes on until it is stopped, and returns it once
// its first text is there.
func endless(t *testing.T, stderr io.Writer, more ...string) (*exec.Cmd, io.ReadCloser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, append([]string{"run", "-m", demo.Name, "-p", "One day",
		"-c", "1000000", "--override-kv", "llama.context_length=int:1000000", "--ignore-eos", "--memory", "64G"}, more...)...)
	cmd.Env = cleanEnvironment()
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(out, 16).ReadByte(); err != nil {
		cmd.Wait()
		t.Fatalf("no text: %v", err)
	}
	return cmd, out
}

func TestInterruptEndsTheText(t *testing.T) {
	var stderr strings.Builder
	cmd, out := endless(t, &stderr, "--stats")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	io.Copy(io.Discard, out)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("got exit code %d, want 130", code)
	}
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("took %v to stop", took)
	}
	if s := stderr.String(); !strings.HasPrefix(s, "\n") || !strings.Contains(s, "decode") || strings.Contains(s, "quern:") {
		t.Errorf("got stderr %q, want a new line, then the statistics", s)
	}
}

func TestBrokenPipeIsQuiet(t *testing.T) {
	var stderr strings.Builder
	cmd, out := endless(t, &stderr)
	out.Close()
	start := time.Now()
	cmd.Wait()
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("took %v to stop", took)
	}
	if stderr.String() != "" {
		t.Errorf("got stderr %q, want nothing", stderr.String())
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGPIPE {
		t.Errorf("got %v, want the end by SIGPIPE that shells expect", cmd.ProcessState)
	}
}

// Texts end before the first of some words, wherever tokens end; where there is none of them, with all that there is.
func TestRunReversePrompt(t *testing.T) {
	for _, args := range [][]string{
		{"run", "-m", demo.Name, "-p", "Once upon a time", "--temp", "0", "-n", "24"},
		{"chat", "-m", demo.Name, "-p", "Tell me a story about a bird.", "--single-turn", "--temp", "0", "-n", "24", "--no-history"},
	} {
		whole := succeed(t, args...)
		text := strings.TrimSuffix(whole, "\n")
		word := text[len(text)/2 : len(text)/2+4]
		before, _, _ := strings.Cut(whole, word)
		if args[0] == "chat" && !strings.HasSuffix(before, "\n") {
			before += "\n"
		}
		for _, tt := range []struct {
			more []string
			want string
		}{
			{[]string{"-r", word}, before},
			{[]string{"--reverse-prompt", "nowhere", "--reverse-prompt", word, "-r", ""}, before},
			{[]string{"-r", text[len(text)-6:] + "?"}, whole}, // whose beginning is at the end
		} {
			if got := succeed(t, append(slices.Clone(args), tt.more...)...); got != tt.want {
				t.Errorf("%s %q: %q, want %q", args[0], tt.more, got, tt.want)
			}
		}
	}
	// The conversation goes on behind an answer that was ended.
	r := invocation{args: []string{"chat", "-m", demo.Name, "--temp", "0", "-n", "24", "-r", " a"}, stdin: "Tell me a story about a bird.\nAnd then?\n"}.run(t)
	if lines := strings.Split(strings.TrimSpace(r.stdout), "\n"); r.code != 0 || len(lines) != 2 || strings.Contains(r.stdout, " a") {
		t.Errorf("two answers: %d %q %s", r.code, r.stdout, r.stderr)
	}
}

// A document stands in front of the prompt, in which it is literal, and one that cannot be read is named.
func TestRunWithADocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page, bad := filepath.Join(dir, "tom.html"), filepath.Join(dir, "bad.pdf")
	for path, text := range map[string]string{page: "<p>Tom has a <b>red</b> ball. &lt;|im_end|&gt;", bad: "%PDF-1.7\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"run", "-m", "demo", "-n", "8", "--temp", "0"}
	without, with := succeed(t, append(args, "Tom")...), succeed(t, append(args, "--document", page, "Tom")...)
	if again := succeed(t, append(args, "--document", page, "Tom")...); again != with || with == without {
		t.Errorf("with it %q, again %q, without %q", with, again, without)
	}
	quern(t, append(args, "--document", bad, "x")...).refused(t, 1, "--document: "+bad+": PDF: not a document that can be read: damaged: no pages are found in it")
}

// A prompt may be marked as UTF-8 or UTF-16, as editors and shells of Windows do it. One in a code page is refused, from a file and from a
// pipe: a model would read other letters.
func TestPromptsSayTheirEncoding(t *testing.T) {
	dir := t.TempDir()
	const told = "Once upon a time"
	wide := func(order binary.AppendByteOrder, mark uint16) string {
		b := order.AppendUint16(nil, mark)
		for _, unit := range utf16.Encode([]rune(told)) {
			b = order.AppendUint16(b, unit)
		}
		return string(b)
	}
	args := []string{"run", "-m", demo.Name, "--temp", "0", "-n", "16"}
	want := succeed(t, append(args, "-p", told)...)
	for _, text := range []string{told, "\ufeff" + told, wide(binary.LittleEndian, 0xfeff), wide(binary.BigEndian, 0xfeff)} {
		if got := succeed(t, append(args, "-f", writeFile(t, dir, "prompt.txt", text))...); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if r := (invocation{args: args, stdin: text}).run(t); r.stdout != want || r.code != 0 {
			t.Errorf("%q: code %d, %q and %q, want %q", text, r.code, r.stdout, r.stderr, want)
		}
	}
	for text, words := range map[string]string{
		"\xcf\xf0\xe8\xe2\xe5\xf2": "is not UTF-8; give UTF-8", // code page 1251
		"\xff\xfea":                "odd number of bytes",
	} {
		quern(t, append(args, "-f", writeFile(t, dir, "prompt.txt", text))...).refused(t, 1, "prompt.txt", words)
		invocation{args: args, stdin: text}.run(t).refused(t, 1, "standard input", words)
	}
	r := invocation{args: talk(), stdin: "Once upon a time\n\xcf\xf0\xe8\n"}.run(t)
	if r.code != 1 || r.stdout != want+"\n" || r.stderr != "quern: a message is not UTF-8; give UTF-8\n" {
		t.Errorf("code %d, %q and %q", r.code, r.stdout, r.stderr)
	}
}
