package repl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// An Input is where messages and commands come from, each as it was typed, of
// one line or several. At the end it returns io.EOF.
type Input interface {
	Read() (string, error)
}

var errLong = fmt.Errorf("a message is longer than %d MiB; give a shorter one", maxMessage>>20)

// ErrInterrupted is what an Input returns for Ctrl-C where nothing was typed.
var ErrInterrupted = errors.New("interrupted")

// maxMessage bounds what is read as one message, far above any context.
const maxMessage = 16 << 20

// Marks of input.
const (
	fence = `"""` // around a message of several lines
	goOn  = `\`   // at the end of a line that goes on in the next
)

// whole tells whether what was typed is all, or goes on in the next line.
func whole(typed string) bool {
	return !fenced(typed) && !strings.HasSuffix(typed, goOn)
}

// fenced tells whether what was typed begins a block, and does not end it.
func fenced(typed string) bool {
	_, body := split(typed)
	block := strings.TrimSpace(body)
	return strings.HasPrefix(block, fence) && (len(block) < 2*len(fence) || !strings.HasSuffix(block, fence))
}

// split parts a command from what comes after its name. A message has none.
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

// text returns what the body of a message or a command says, without the marks.
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

// Lines is input by the line: a pipe, a file, or a terminal that edits nothing.
type Lines struct {
	scanner *bufio.Scanner
	prompt  io.Writer // nil: none
}

// NewLines returns the lines of r. Unless prompt is nil, it is asked for them there.
func NewLines(r io.Reader, prompt io.Writer) *Lines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxMessage)
	return &Lines{s, prompt}
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
		typed.WriteString(strings.ToValidUTF8(l.scanner.Text(), "\uFFFD"))
		if typed.Len() > maxMessage {
			return "", errLong
		}
		if whole(typed.String()) {
			return typed.String(), nil
		}
		typed.WriteByte('\n')
	}
}

// end returns what was typed before the input ended, if that can be said.
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
