package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/tokenizer"
)

// bare is a template that adds nothing, so that a chat's first answer is what
// "quern run" says to the same text.
const bare = "{% for m in messages %}{{ m.content }}{% endfor %}"

// talk is a chat with a small model, of which the tests below are variations.
func talk(more ...string) []string {
	return append([]string{"chat", "-m", demo.Name, "--chat-template", bare, "--temp", "0", "-n", "16"}, more...)
}

func TestChatAnswersLines(t *testing.T) {
	first := succeed(t, story()...)
	again := succeed(t, append(story()[:3], "-p", "Once upon a time"+first+"One day", "--temp", "0", "-n", "16")...)
	want := first + "\n" + again + "\n"
	for _, in := range []string{
		"Once upon a time\nOne day\n", "Once upon a time\n\n\"\"\"\nOne day\n\"\"\"", "Once upon a time\r\nOne day\r\n/quit\nnever said\n",
		"Once upon a time\n/stats\nOne day\n/help\n", "No\n/clear\nOnce upon a time\nOne day",
	} {
		r := invocation{args: talk(), stdin: in}.run(t)
		got := r.stdout
		if strings.HasPrefix(in, "No\n") {
			_, got, _ = strings.Cut(got, "\n") // the answer to that is one line
		}
		if got != want || r.code != 0 {
			t.Errorf("%q: got %q, code %d and %q; want %q", in, got, r.code, r.stderr, want)
		}
		if strings.Contains(in, "/") == (r.stderr == "") && !strings.ContainsAny(in, "Nq") {
			t.Errorf("%q: got stderr %q", in, r.stderr)
		}
	}
	if got := succeed(t, talk("-p", "Once upon a time")...); got != first+"\n" {
		t.Errorf("-p: got %q, want %q", got, first)
	}
	if got := succeed(t, talk("-sys", "Once upon", "-p", " a time")...); got != first+"\n" {
		t.Errorf("-sys: got %q, want %q", got, first)
	}
	r := invocation{args: talk(), stdin: "/system Once upon\n/set predict 3\n a time\n/set predict many\n"}.run(t)
	if n := len(strings.TrimSuffix(r.stdout, "\n")); n == 0 || n >= len(first) || !strings.HasPrefix(first, r.stdout[:n]) {
		t.Errorf("three tokens: got %q, want the beginning of %q", r.stdout, first)
	}
	if r.code != 1 || !strings.Contains(r.stderr, `invalid argument "many"`) || !strings.Contains(r.stderr, "from -1 to") {
		t.Errorf("got code %d and %q", r.code, r.stderr)
	}
}

func TestChatSavesAndLoads(t *testing.T) {
	name := filepath.Join(t.TempDir(), "talk.json")
	whole := invocation{args: talk(), stdin: "Once upon a time\n/save " + name + "\nOne day\n"}.run(t)
	r := invocation{args: talk(), stdin: "/load " + name + "\nOne day\n"}.run(t)
	if whole.code != 0 || r.code != 0 || r.stdout == "" || !strings.HasSuffix(whole.stdout, r.stdout) {
		t.Errorf("got %q and %q, want the end of %q", r.stdout, r.stderr, whole.stdout)
	}
}

func TestChatWithoutTemplateSaysWhichItTakes(t *testing.T) {
	name := changedDemo(t, map[string]any{"tokenizer.chat_template": nil})
	args := []string{"chat", "-m", name, "--temp", "0", "-n", "16", "-p", "hi"}
	r, want := quern(t, args...), succeed(t, append(args, "--chat-template", "chatml")...)
	if r.code != 0 || r.stdout != want || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "no chat template: chatml is used") {
		t.Errorf("got code %d, %q and %q", r.code, r.stdout, r.stderr)
	}
}

// A vocabulary with another family's marks of turns is given that family's template, whose turns end the reply.
func TestChatWithoutTemplateTakesTheVocabularys(t *testing.T) {
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	read := func(key string) any {
		v, _ := f.Value("tokenizer.ggml." + key)
		return v
	}
	tokens, types := slices.Clone(read("tokens").([]string)), slices.Clone(read("token_type").([]int32))
	for i, mark := range []string{"<|turn>", "<turn|>", "<|channel>", "<channel|>"} {
		at := len(tokens) - 1 - i
		tokens[at], types[at] = mark, int32(tokenizer.UserDefined)
	}
	name := changedDemo(t, map[string]any{
		"tokenizer.chat_template": nil, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
	})
	r := quern(t, "chat", "-m", name, "--temp", "0", "-n", "8", "-p", "hi")
	if r.code != 0 || r.stdout == "" || !strings.Contains(r.stderr, "no chat template: gemma4 is used") {
		t.Errorf("got code %d, %q and %q", r.code, r.stdout, r.stderr)
	}
}

func TestChatTakesTheModelsTemplateAndSampling(t *testing.T) {
	name := changedDemo(t, map[string]any{
		"tokenizer.chat_template": bare, "general.sampling.temp": float32(0), "general.sampling.top_k": int32(7),
	})
	want := succeed(t, story()...) + "\n"
	if got := succeed(t, "chat", "-m", name, "-n", "16", "-p", "Once upon a time"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r := invocation{args: []string{"chat", "-m", name, "--top-k", "9"}, stdin: "/set temp\n/set top-k\n"}.run(t)
	if got := strings.Fields(r.stderr); len(got) < 2 || got[0] != "temp" || got[1] != "0" || !strings.Contains(r.stderr, "top-k              9 ") {
		t.Errorf("got %q, want the model's temperature and the flag's top-k", r.stderr)
	}
}

func TestChatRefuses(t *testing.T) {
	quern(t, "chat", "-m", "").refused(t, exitUsage, "GGUF")
	quern(t, talk("--chat-template-file", "x")...).refused(t, exitUsage, "--chat-template and --chat-template-file")
	quern(t, talk("--chat-template", "nameless")...).refused(t, exitUsage, "nameless", "chatml")
	quern(t, talk("--temp", "hot")...).refused(t, exitUsage, "hot", "from -100 to 100")
	invocation{args: talk(), stdin: "\"\"\"\nnever ends\n"}.run(t).refused(t, exitFailure, `"""`, "no end")
}

// rambler returns the arguments of a chat whose answers do not end.
func rambler(t *testing.T) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tiny.gguf")
	if r := quern(t, "bench", "--synth", "tiny:Q4_0", "-o", name); r.code != 0 {
		t.Fatal(r.stderr)
	}
	return []string{"chat", "-m", name, "--chat-template", "chatml", "--temp", "0", "-c", "1000000", "--memory", "64G"}
}

// A terminal is one that the program runs in.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File
	mu   sync.Mutex
	raw  string
	seen string // of it without escapes, and not yet expected
	end  chan struct{}
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]* ?[a-zA-Z]|\x1b[=>D]`)

// openTerminal runs the program in a terminal, with state as its state folder.
func openTerminal(t *testing.T, state string, args ...string) *terminal {
	t.Helper()
	return openTerminalOf(t, 40, 120, state, args...)
}

func openTerminalOf(t *testing.T, rows, columns uint16, state string, args ...string) *terminal {
	t.Helper()
	term := &terminal{t: t, cmd: exec.Command(program, args...), end: make(chan struct{})}
	term.cmd.Env = append(cleanEnvironment(), "TERM=xterm-256color", "XDG_STATE_HOME="+state, "INPUTRC=/dev/null")
	var err error
	if term.file, err = pty.StartWithSize(term.cmd, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		term.cmd.Process.Kill()
		<-term.end
		term.file.Close()
	})
	go func() {
		defer close(term.end)
		buf := make([]byte, 4096)
		for {
			n, err := term.file.Read(buf)
			term.mu.Lock()
			term.raw += string(buf[:n])
			term.seen = escapes.ReplaceAllString(term.seen+string(buf[:n]), "")
			term.mu.Unlock()
			if err != nil { // the program has ended
				return
			}
		}
	}()
	return term
}

// expect waits until text has been shown, after what was expected before.
func (term *terminal) expect(text string) {
	term.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		term.mu.Lock()
		seen := term.seen
		_, after, ok := strings.Cut(seen, text)
		if ok {
			term.seen = after
		}
		term.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			term.t.Fatalf("%q was not shown, but %.2000q", text, seen)
		}
	}
}

// goesOn checks that an answer does not end for a while.
func (term *terminal) goesOn() {
	term.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		term.mu.Lock()
		seen := term.seen
		term.mu.Unlock()
		switch took := time.Since(begun); {
		case strings.Contains(seen, "\n> "):
			term.t.Fatalf("the answer has ended: %.2000q", seen)
		case took > 200*time.Millisecond && strings.TrimSpace(seen) != "":
			return
		case took > time.Minute:
			term.t.Fatal("no answer began")
		}
	}
}

func (term *terminal) write(keys string) {
	term.t.Helper()
	if _, err := term.file.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// leaves waits for the end of the program.
func (term *terminal) leaves() {
	term.t.Helper()
	select {
	case <-term.end:
	case <-time.After(time.Minute):
		term.t.Fatal("the program goes on")
	}
	if err := term.cmd.Wait(); err != nil {
		term.t.Errorf("got %v, want exit code 0", err)
	}
}

const (
	wide                = "\U0001F469\u200D\U0001F4BB" // three runes, one character
	ctrlA, ctrlC, ctrlD = "\x01", "\x03", "\x04"
	arrowUp             = "\x1b[A"
)

func TestChatInATerminal(t *testing.T) {
	state := t.TempDir()
	args := rambler(t)
	term := openTerminal(t, state, args...)
	term.expect("/help lists")
	term.expect("> ")
	term.write(wide + " w\u00f6rld" + ctrlA + "\u4e16") // is edited
	term.write("hello \r")
	term.expect("\u4e16hello " + wide + " w\u00f6rld")
	term.expect("\r\n")
	term.goesOn()
	term.write(ctrlC) // which stops the answer
	term.expect("> ")
	term.write("/stats\r")
	term.expect(" tokens, 2 messages")
	term.expect("> ")
	term.write("\x1b[200~/one\r/two \xc3\xa9\x1b[201~") // is pasted, and sent when somebody says so
	term.expect("/two \u00e9")
	term.write(ctrlC) // clears it
	term.expect("> ")
	term.write(ctrlC)
	term.expect("Ctrl-D or /quit leaves")
	term.expect("> ")
	term.write(arrowUp + arrowUp + ctrlA + "/system say \r") // what was typed first
	term.write("/system\r")
	term.expect("\r\nsay \u4e16hello " + wide + " w\u00f6rld\r\n")
	term.write(ctrlD)
	term.leaves()
	if !strings.Contains(term.raw, "\x1b[?2004h") {
		t.Error("the terminal was not asked to mark what is pasted")
	}

	past := filepath.Join(state, "quern", "history")
	if info, err := os.Stat(past); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v and %v, want a history for nobody else", info, err)
	}
	term = openTerminal(t, state, args...)
	term.expect("> ")
	term.write(arrowUp + arrowUp + "\r") // is what was typed last but one
	term.expect("/system say \u4e16hello " + wide + " w\u00f6rld")
	term.write("/system\r")
	term.expect("\r\nsay \u4e16hello " + wide + " w\u00f6rld\r\n")
	term.write(ctrlC)
	term.expect("Ctrl-D or /quit leaves")
	term.expect("> ")
	term.write(ctrlC)
	term.leaves()
}

// What is typed while an answer is written is not shown in it, and is there at the next prompt.
func TestTypingDuringAnAnswer(t *testing.T) {
	term := openTerminal(t, "/proc/none", talk("--single-turn=false", "-n", "400")...)
	answer := strings.Fields(succeed(t, talk("-n", "400", "-p", "Once upon a time")...))
	term.expect("> ")
	term.write("Once upon a time\r")
	term.expect(answer[0])
	term.write("/stats")
	term.expect(answer[len(answer)-1])
	term.expect("> /stats")
	term.mu.Lock()
	shown := escapes.ReplaceAllString(term.raw, "")
	term.mu.Unlock()
	if before, _, _ := strings.Cut(shown, "> /stats"); strings.Contains(before, "/stats") {
		t.Errorf("shown in the answer: %q", before)
	}
	term.write("\r")
	term.expect(" tokens, 2 messages")
	term.expect("> ")
	term.write(ctrlD)
	term.leaves()
}

// On a screen that is full, the prompt stands below the last line of the answer.
func TestChatOnAFullScreen(t *testing.T) {
	const rows, columns = 8, 40
	term := openTerminalOf(t, rows, columns, "/proc/none", talk("--single-turn=false", "-n", "24")...)
	answer := strings.Fields(succeed(t, talk("-n", "24", "-p", "Once upon a time")...))
	for range 3 { // more than the rows of the screen
		term.expect("> ")
		term.write("/clear\r")
		term.expect("> ")
		term.write("Once upon a time\r")
		term.expect(answer[len(answer)-1])
	}
	term.expect("> ")
	term.mu.Lock()
	raw := term.raw
	term.mu.Unlock()
	shown := vt10x.New(vt10x.WithSize(columns, rows))
	_, _ = shown.Write([]byte(raw))
	screen := strings.Split(strings.TrimRight(shown.String(), " \n"), "\n")
	last := strings.TrimSpace(screen[len(screen)-1])
	before := strings.Fields(screen[len(screen)-2])
	if last != ">" || len(before) == 0 || before[len(before)-1] != answer[len(answer)-1] {
		t.Errorf("the screen is\n%s\nwant the end of the answer, %q, above the prompt", strings.Join(screen, "\n"), answer)
	}
	for _, row := range screen[:len(screen)-1] {
		for _, word := range strings.Fields(row) {
			if !strings.HasPrefix(row, ">") && !slices.Contains(answer, word) {
				t.Errorf("the row %q has a part of a word, %q", row, word)
			}
		}
	}
	term.write(ctrlD)
	term.leaves()
}

func TestChatNeedsNoHistory(t *testing.T) {
	term := openTerminal(t, "/proc/none", talk()...)
	term.expect("> ")
	term.write("Once upon a time\r")
	term.expect(told(t, "Once upon a time")[:16])
	term.expect("> ")
	term.write("/quit\r")
	term.leaves()
}

// A line that is typed with a backslash at its end goes on. One that is pasted
// just has it.
func TestPastedBackslashesStay(t *testing.T) {
	name := filepath.Join(t.TempDir(), "talk.json")
	term := openTerminal(t, "/proc/none", talk()...)
	term.expect("> ")
	term.write("\x1b[200~run \\\r  -p 80 \\\x1b[201~\r")
	term.expect("\r\n> ")
	term.write("/save " + name + "\r")
	term.expect("saved 2 messages")
	term.write(ctrlD)
	term.leaves()
	data, err := os.ReadFile(name)
	if want := `"run \\\n  -p 80 \\"`; err != nil || !strings.Contains(string(data), want) {
		t.Errorf("got %s and %v, want %s", data, err, want)
	}
}

func TestTerminatedChatLeavesTheTerminalAsItWas(t *testing.T) {
	term := openTerminal(t, "/proc/none", talk()...)
	term.expect("/help lists")
	term.expect("> ")
	modes := func() unix.Termios {
		m, err := unix.IoctlGetTermios(int(term.file.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return *m
	}
	for deadline := time.Now().Add(time.Minute); modes().Lflag&unix.ICANON != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no line is edited")
		}
	}
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/fd/0", term.cmd.Process.Pid)) // or there are no modes once it has ended
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := term.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := term.cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != unix.SIGTERM {
		t.Errorf("got %v, want an end by the signal", err)
	}
	if m := modes(); m.Lflag&unix.ICANON == 0 || m.Lflag&unix.ECHO == 0 || m.Lflag&unix.ISIG == 0 {
		t.Errorf("the terminal's modes are %+v", m)
	}
	theirs.Close()
	<-term.end
	if !strings.Contains(term.raw, "\x1b[?2004l") {
		t.Error("the terminal still marks what is pasted")
	}
}

func TestInterruptEndsAChatOfAPipe(t *testing.T) {
	cmd := exec.Command(program, append(rambler(t), "-p", "hello")...)
	cmd.Env = cleanEnvironment()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			if _, err := out.Read(buf); err != nil {
				return
			}
		}
	}()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("got exit code %d, want %d", code, exitInterrupted)
	}
}
