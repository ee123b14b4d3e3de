package repl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// An Input is a source of messages and commands as typed, of one line or several.
// At the end Read returns io.EOF.
type Input interface {
	Read() (string, error)
}

// A Quieter is an Input of a terminal, which can be kept from showing what is typed while an answer is written.
type Quieter interface{ Quiet() (restore func()) }

var errEncoding = errors.New("a message is not UTF-8; give UTF-8")

var errLong = fmt.Errorf("a message is longer than %d MiB; give a shorter one", maxMessage>>20)

// ErrInterrupted is returned by Read for Ctrl-C on an empty line.
var ErrInterrupted = errors.New("interrupted")

// maxMessage bounds the bytes of a message, far above any context.
const maxMessage = 16 << 20

// The syntax of messages of several lines.
const (
	fence = `"""` // around a message of several lines
	goOn  = `\`   // at the end of a line: continued on the next
)

// whole reports whether the input is complete, not continued on the next line.
func whole(typed string) bool {
	return !fenced(typed) && !strings.HasSuffix(typed, goOn)
}

// fenced reports whether the input opens a block and does not close it.
func fenced(typed string) bool {
	_, body := split(typed)
	block := strings.TrimSpace(body)
	return strings.HasPrefix(block, fence) && (len(block) < 2*len(fence) || !strings.HasSuffix(block, fence))
}

// split separates the name of a command from its arguments. command is empty for a
// message.
func split(typed string) (command, body string) {
	begun := strings.TrimLeft(typed, " \t")
	if !strings.HasPrefix(begun, "/") || strings.HasPrefix(begun, "//") {
		return "", typed
	}
	end := strings.IndexAny(begun, " \t\n")
	if end < 0 {
		return begun, ""
	}
	return begun[:end], strings.TrimLeft(begun[end:], " \t\n")
}

// text returns the text of a message or of arguments, without the syntax.
func text(body string) string {
	if block := strings.TrimSpace(body); len(block) >= 2*len(fence) && strings.HasPrefix(block, fence) && strings.HasSuffix(block, fence) {
		block = block[len(fence) : len(block)-len(fence)]
		return strings.TrimSuffix(strings.TrimPrefix(block, "\n"), "\n")
	}
	body = strings.ReplaceAll(strings.TrimSuffix(body, goOn), goOn+"\n", "\n")
	if begun := strings.TrimLeft(body, " \t"); strings.HasPrefix(begun, "//") {
		return begun[1:]
	}
	return body
}

// Lines is input without line editing: from a pipe, a file, or a dumb terminal.
type Lines struct {
	scanner *bufio.Scanner
	prompt  io.Writer // nil: none
	begun   bool
}

// NewLines returns the lines of r. Prompts are written to prompt, unless it is nil.
func NewLines(r io.Reader, prompt io.Writer) *Lines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxMessage)
	return &Lines{scanner: s, prompt: prompt}
}

func (l *Lines) Read() (string, error) {
	var typed strings.Builder
	for mark := firstPrompt; ; mark = nextPrompt {
		if l.prompt != nil {
			fmt.Fprint(l.prompt, mark)
		}
		if !l.scanner.Scan() {
			return l.end(typed.String())
		}
		line := l.scanner.Text()
		if !l.begun {
			line, l.begun = strings.TrimPrefix(line, "\uFEFF"), true // the mark with which editors of Windows begin a file
		}
		switch {
		case utf8.ValidString(line):
		case l.prompt == nil:
			return "", errEncoding
		default: // what a terminal makes of half a character
			line = strings.ToValidUTF8(line, "\uFFFD")
		}
		typed.WriteString(line)
		if typed.Len() > maxMessage {
			return "", errLong
		}
		if whole(typed.String()) {
			return typed.String(), nil
		}
		typed.WriteByte('\n')
	}
}

// end returns the incomplete input before the end of file, if it is a message.
func (l *Lines) end(typed string) (string, error) {
	err := l.scanner.Err()
	switch rest := strings.TrimSuffix(typed, "\n"); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", errLong
	case err != nil:
		return "", err
	case rest == "":
		return "", io.EOF
	case fenced(rest):
		return "", fmt.Errorf("a message that begins with %s has no end; end it with another %s", fence, fence)
	default:
		return rest, nil
	}
}
