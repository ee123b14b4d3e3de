package repl

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/reeflective/readline"
	"golang.org/x/term"

	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/platform"
)

// The prompts for the first line of a message and for continuation lines.
const (
	firstPrompt = "> "
	nextPrompt  = ". "
)

// An Editor is input from a terminal, with line editing and history.
type Editor struct{ shell *readline.Shell }

// NewEditor returns an Editor on standard input and output. The history is kept in
// the file of that name, if it can be written; "" keeps none.
func NewEditor(history string) *Editor {
	shell := readline.NewShell()
	shell.Prompt.Primary(func() string { return firstPrompt })
	shell.Prompt.Secondary(func() string { return nextPrompt })
	shell.AcceptMultiline = func(line []rune) bool { return whole(string(line)) }
	// The library's self-insert inserts only the first rune of a grapheme cluster,
	// and misplaces the cursor by one column after a wide character.
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
	// A backslash at the end of a line continues it when typed, and is part of the
	// text when pasted.
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
	// Ctrl-C is a key while a line is edited, and a signal that stops an answer
	// afterwards. Between the two it must not end the program.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	leaveTerminalAsItIs()
	if past, err := openHistory(history); err == nil {
		shell.History.Add("history", past)
	}
	return &Editor{shell}
}

// leaveTerminalAsItIs restores the present terminal state when a signal ends the
// program, which may happen while a line is edited.
func leaveTerminalAsItIs() {
	stdin := int(os.Stdin.Fd())
	before, err := term.GetState(stdin)
	if err != nil {
		return // standard input is not a terminal
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := <-ends
		_ = term.Restore(stdin, before)
		_, _ = os.Stdout.WriteString("\x1b[?2004l\r\n") // disable bracketed paste
		signal.Reset(s)
		_ = platform.Raise(s)
	}()
}

func (e *Editor) Read() (string, error) {
	for {
		// Without the probe the library takes it that there is a row below the prompt's, and draws a prompt in the last row one
		// row too high, over what was printed. So that row is made: down by a row, which scrolls at the bottom, and up again.
		if _, err := os.Stdout.WriteString("\x1bD\x1b[A"); err != nil {
			return "", err
		}
		typed, err := e.shell.Readline()
		if !errors.Is(err, readline.ErrInterrupt) {
			return typed, err
		}
		if typed == "" {
			return "", ErrInterrupted
		}
	}
}

// Quiet keeps the terminal from showing what is typed, until restore is called. The next Read begins with what was typed.
func (e *Editor) Quiet() (restore func()) { return platform.HideTyping(os.Stdin) }

// History returns the path of the history file, or "" if there is no home directory.
func History() string {
	state, err := platform.StateFolder()
	if err != nil {
		return ""
	}
	return filepath.Join(state, "quern", "history")
}

// A history keeps lines in a file, except for those longer than maxKept.
type history struct{ readline.History }

const (
	maxKept    = 8 << 10
	maxHistory = 1 << 20 // bytes of the file; a longer one is cut to its later half
)

// openHistory opens the file, or creates it.
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

// shorten cuts a history longer than maxHistory to its end.
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
