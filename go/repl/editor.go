package repl

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/reeflective/readline"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// What a terminal asks for messages with, and for their further lines.
const (
	firstPrompt = "> "
	nextPrompt  = ". "
)

// An Editor is input from a terminal: lines can be edited and called back.
type Editor struct{ shell *readline.Shell }

// NewEditor returns an Editor on standard input and output. It keeps what was
// typed in the file called history, if it can be written; "" keeps nothing.
func NewEditor(history string) *Editor {
	shell := readline.NewShell()
	shell.Prompt.Primary(func() string { return firstPrompt })
	shell.Prompt.Secondary(func() string { return nextPrompt })
	shell.AcceptMultiline = func(line []rune) bool { return whole(string(line)) }
	// The library's own keeps the first rune of a character only, and is off by one
	// after a wide one.
	shell.Keymap.Register(map[string]func(){"self-insert": func() {
		shell.History.SkipSave()
		shell.Cursor().InsertAt(shell.Keys.Caller()...)
	}})
	shell.Completer = func(line []rune, _ int) readline.Completions {
		if !strings.HasPrefix(string(line), "/") || strings.Contains(string(line), " ") {
			return readline.Completions{}
		}
		return readline.CompleteValues(commandNames()...)
	}
	// Of a line that is typed \ at its end says that it goes on; of one that is
	// pasted it is a part.
	shell.PasteTransformer = func(pasted string) string {
		if shell.Line().Len() > 0 || !strings.Contains(pasted+"\n", goOn+"\n") {
			return pasted
		}
		return fence + "\n" + pasted + "\n" + fence
	}
	for name, value := range map[string]bool{
		"enable-bracketed-paste": true,  // several lines are one message
		"cursor-position-probe":  false, // some terminals never answer; a prompt begins its line
		"multiline-column":       true,
		"convert-meta":           false, // text is UTF-8
	} {
		_ = shell.Config.Set(name, value) // fails for other types only
	}
	// While a line is edited Ctrl-C is a key, and later it stops an answer. At no
	// moment between them does it end the program.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	leaveTerminalAsItIs()
	if past, err := openHistory(history); err == nil {
		shell.History.Add("history", past)
	}
	return &Editor{shell}
}

// leaveTerminalAsItIs has the program end by a signal with the terminal as it is
// now, not as it is while a line is edited.
func leaveTerminalAsItIs() {
	stdin := int(os.Stdin.Fd())
	before, err := term.GetState(stdin)
	if err != nil {
		return // there is none
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, unix.SIGTERM, unix.SIGHUP)
	go func() {
		s := <-ends
		_ = term.Restore(stdin, before)
		_, _ = os.Stdout.WriteString("\x1b[?2004l\r\n") // no brackets around what is pasted from here on
		signal.Reset(s)
		_ = unix.Kill(os.Getpid(), s.(unix.Signal))
	}()
}

func (e *Editor) Read() (string, error) {
	for {
		typed, err := e.shell.Readline()
		if !errors.Is(err, readline.ErrInterrupt) {
			return typed, err
		}
		if typed == "" {
			return "", ErrInterrupted
		}
	}
}

// History is the file in which what was typed is kept, or "" where there is no
// place for it.
func History() string {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification has others ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "quern", "history")
}

// A history keeps lines in a file, but for those that are too long to be read
// again.
type history struct{ readline.History }

const (
	maxKept    = 8 << 10
	maxHistory = 1 << 20 // bytes of the file; of a longer one the later half stays
)

// openHistory opens the file, or makes it.
func openHistory(name string) (*history, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := shorten(name); err != nil {
		return nil, err
	}
	past, err := readline.NewHistoryFromFile(name)
	return &history{past}, err
}

// shorten leaves the later half of a history that has become long.
func shorten(name string) error {
	data, err := os.ReadFile(name)
	if err != nil || len(data) <= maxHistory {
		return err
	}
	_, kept, _ := bytes.Cut(data[len(data)-maxHistory/2:], []byte("\n"))
	_, err = newfile.Write(name, true, 0o600, uint64(len(kept)), bytes.NewReader(kept).WriteTo)
	return err
}

func (h *history) Write(line string) (int, error) {
	if len(line) > maxKept {
		return h.Len(), nil
	}
	return h.History.Write(line)
}
