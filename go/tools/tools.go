// Package tools has llama-server's tools: they read, search, write and edit files, and run commands. All work in one folder,
// each call as a process of its own in a sandbox, which this program becomes: a program that opens a Box calls Enter first.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/sandbox"
)

// A Tool is what a client is told of one.
type Tool struct {
	Name, Display string
	Writes        bool            // it may change files
	Streams       bool            // what it writes can be had while it runs
	Definition    json.RawMessage // as chat templates and OpenAI's API have it
}

// A Box is tools that work in a folder. It is safe for concurrent use.
type Box struct {
	jail  sandbox.Jail
	tools []Tool
	turns chan struct{}
}

// All stands for all tools in the list of names.
const All = "all"

// MostCalls is how many calls of a box run at a time; others wait.
const MostCalls = 8

// Open returns tools that work in a folder, by their names. It fails where there is no sandbox; a first call tries it out.
func Open(dir string, names []string) (*Box, error) {
	b := &Box{turns: make(chan struct{}, MostCalls)}
	for _, name := range names {
		if name != All && !slices.ContainsFunc(known, func(t Tool) bool { return t.Name == name }) {
			return nil, fmt.Errorf("there is no tool %.100q; there are %s, and %s of them", name, strings.Join(namesOf(known), ", "), All)
		}
	}
	for _, t := range known {
		if slices.Contains(names, t.Name) || slices.Contains(names, All) {
			b.tools = append(b.tools, t)
		}
	}
	var err error
	if b.jail, err = sandbox.New(dir); err != nil || len(b.tools) == 0 {
		return b, err
	}
	if slices.Contains(namesOf(b.tools), shell) {
		if _, err := os.Stat(shellPath); err != nil {
			return nil, fmt.Errorf("the tool %s needs %s, which is not here: name the other tools", shell, shellPath)
		}
	}
	// What a service forbids its sandboxes shows when one is made.
	if _, err := b.call(context.Background(), Call{Tool: "get_info"}, b.jail.Dir()); err != nil {
		return nil, fmt.Errorf("a first call failed: %w", err)
	}
	return b, nil
}

func namesOf(tools []Tool) (names []string) {
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

// Tools returns what clients are told of the tools.
func (b *Box) Tools() []Tool { return b.tools }

// Dir returns the folder.
func (b *Box) Dir() string { return b.jail.Dir() }

// A Call is a call of a tool.
type Call struct {
	Tool   string
	Params json.RawMessage // an object
	Dir    string          // relative paths begin here; empty: in the box's folder
	Base64 bool            // read_file answers with bytes
	// Chunk, unless it is nil, is given what the tool writes, while it runs; the answer is null then. An error ends the call.
	Chunk func(string) error
}

var (
	// ErrUnknown is of a call of a tool that is not in the box.
	ErrUnknown = errors.New("there is no such tool")
	// ErrNoStream is of a call that asks for chunks of a tool that has none.
	ErrNoStream = errors.New("this tool does not stream")
)

// A ParamError is about the parameters of a call: they are not what the tool takes.
type ParamError struct{ message string }

func (e *ParamError) Error() string { return e.message }

func badParams(format string, args ...any) error { return &ParamError{fmt.Sprintf(format, args...)} }

// Do calls a tool. That it could not do what it was asked for is an answer, with a member error.
func (b *Box) Do(ctx context.Context, c Call) (json.RawMessage, error) {
	i := slices.IndexFunc(b.tools, func(t Tool) bool { return t.Name == c.Tool })
	switch {
	case i < 0:
		return nil, ErrUnknown
	case c.Chunk != nil && !b.tools[i].Streams:
		return nil, ErrNoStream
	}
	work, err := b.within(c.Dir)
	if err != nil {
		return nil, err
	}
	select {
	case b.turns <- struct{}{}:
		defer func() { <-b.turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.Tool == shell {
		return b.shell(ctx, c, work)
	}
	return b.call(ctx, c, work)
}

// call calls a tool that is not the shell.
func (b *Box) call(request context.Context, c Call, work string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(request, longest)
	defer cancel()
	in, err := json.Marshal(task{c.Tool, c.Params, b.jail.Dir(), work, c.Base64})
	if err != nil {
		return nil, err
	}
	cmd, err := b.jail.Command(ctx, work, insideName, sandbox.Own)
	if err != nil {
		return nil, err
	}
	var out, said bounded
	out.left, said.left = mostAnswer, 4<<10
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	if err := cmd.Run(); err != nil {
		switch {
		case request.Err() != nil:
			return nil, context.Cause(request)
		case ctx.Err() != nil:
			return failure(fmt.Sprintf("the tool took more than %v", longest)).answer()
		}
		return nil, fmt.Errorf("the tool %s ended: %w: %s", c.Tool, err, strings.ToValidUTF8(lastLine(said.kept.String()), ""))
	}
	if out.cut {
		return failure(fmt.Sprintf("the answer has more than %d MiB", mostAnswer>>20)).answer()
	}
	var r outcome
	if err := json.Unmarshal(out.kept.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("the tool %s: its answer: %w", c.Tool, err)
	}
	if r.Params != "" {
		return nil, badParams("%s", r.Params)
	}
	return r.Answer, nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// longest is the most that a tool other than the shell takes, and mostAnswer the most bytes that it answers.
const (
	longest    = 30 * time.Second
	mostAnswer = 32 << 20
)

// within returns a folder of the box as an absolute path.
func (b *Box) within(dir string) (string, error) {
	if dir == "" {
		return b.jail.Dir(), nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(b.jail.Dir(), dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !sandbox.Under(b.jail.Dir(), real) {
		return "", badParams("the working folder %.200q is none in %s", dir, b.jail.Dir())
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", badParams("the working folder %.200q is no folder", dir)
	}
	return real, nil
}

// bounded keeps the first bytes that are written to it. It has no ReadFrom, which would take all.
type bounded struct {
	kept bytes.Buffer
	left int
	cut  bool
}

func (w *bounded) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.kept.Write(p[:n])
	w.left -= n
	w.cut = w.cut || n < len(p)
	return len(p), nil
}

// The shell.
const (
	shell        = "exec_shell_command"
	shellPath    = "/bin/sh"
	shellTime    = 10 * time.Second
	longestShell = 60 * time.Second
	mostShell    = 16 << 10
	mostCommand  = 128 << 10 // bytes of a command: Linux takes no longer argument
)

// shell runs a command.
func (b *Box) shell(ctx context.Context, c Call, work string) (json.RawMessage, error) {
	var p struct {
		Command *string `json:"command"`
		Timeout *int    `json:"timeout"`
		Most    *int    `json:"max_output_size"`
	}
	if err := readParams(c.Params, &p); err != nil {
		return nil, err
	}
	limit, bytes := shellTime, mostShell
	switch {
	case p.Command == nil:
		return nil, badParams("params.command is missing")
	case len(*p.Command) >= mostCommand || strings.ContainsRune(*p.Command, 0):
		return nil, badParams("params.command: want less than %d KiB, without zero bytes", mostCommand>>10)
	case p.Timeout != nil && *p.Timeout < 1, p.Most != nil && *p.Most < 1:
		return nil, badParams("params: want a timeout and a max_output_size above 0")
	}
	if p.Timeout != nil {
		limit = time.Duration(min(*p.Timeout, int(longestShell/time.Second))) * time.Second
	}
	if p.Most != nil {
		bytes = min(*p.Most, mostShell)
	}
	slow, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd, err := b.jail.Command(slow, work, "sh", shellPath, "-c", *p.Command)
	if err != nil {
		return nil, err
	}
	out := &chunks{bounded: bounded{left: bytes}, to: c.Chunk, end: cancel}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	sandbox.End(cmd) // what it left in the background
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if out.gone != nil {
		return nil, out.gone
	}
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) && !errors.Is(err, exec.ErrWaitDelay) && slow.Err() == nil {
		return nil, err
	}
	tail := ""
	if out.cut {
		tail = "\n[output truncated]"
	}
	tail += fmt.Sprintf("\n[exit code: %d]", cmd.ProcessState.ExitCode())
	if slow.Err() != nil {
		tail += " [exit due to timed out]"
	}
	if c.Chunk != nil {
		if err := out.rest(); err != nil {
			return nil, err
		}
		return nil, c.Chunk(tail)
	}
	return json.Marshal(map[string]string{"plain_text_response": strings.ToValidUTF8(out.kept.String(), "\ufffd") + tail})
}

// chunks passes on what is written, in whole characters.
type chunks struct {
	bounded
	to   func(string) error // nil: all is kept
	held []byte             // the begin of a character
	end  func()
	gone error // of to
}

func (w *chunks) Write(p []byte) (int, error) {
	if w.to == nil {
		return w.bounded.Write(p)
	}
	n := min(len(p), w.left)
	w.left -= n
	w.cut = w.cut || n < len(p)
	text := append(w.held, p[:n]...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if b := text[len(text)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-back:]) {
				whole -= back
			}
			break
		}
	}
	w.held = slices.Clone(text[whole:])
	if err := w.pass(text[:whole]); err != nil {
		w.end()
		return 0, err
	}
	return len(p), nil
}

func (w *chunks) pass(text []byte) error {
	if len(text) == 0 || w.gone != nil {
		return w.gone
	}
	w.gone = w.to(strings.ToValidUTF8(string(text), "\ufffd"))
	return w.gone
}

// rest passes on what is left of a character that has no end.
func (w *chunks) rest() error {
	held := w.held
	w.held = nil
	return w.pass(held)
}

// readParams reads the parameters of a call.
func readParams(data json.RawMessage, p any) error {
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, p); {
	case errors.As(err, &wrong) && wrong.Field == "":
		return badParams("params: got %s, want an object", wrong.Value)
	case errors.As(err, &wrong):
		return badParams("params.%s: got %s, want another type", wrong.Field, wrong.Value)
	case err != nil:
		return badParams("params: %v", err)
	}
	return nil
}

// A task is a call as the process in the sandbox is given it, and an outcome what it makes of it.
type (
	task struct {
		Tool   string
		Params json.RawMessage
		Box    string // the folder
		Dir    string // where relative paths begin
		Base64 bool
	}
	outcome struct {
		Params string // what is wrong with them
		Answer json.RawMessage
	}
)

// insideName is the name by which this program is told that it runs a tool in a sandbox.
const insideName = "quern: tool"

// Enter makes this process the call of a tool, if it was started for one, and does not return then.
func Enter() {
	sandbox.Enter()
	if len(os.Args) != 1 || os.Args[0] != insideName {
		return
	}
	if err := inside(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// inside runs the tool of a task.
func inside(in io.Reader, out io.Writer) error {
	var t task
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return err
	}
	var r outcome
	answer, err := t.run()
	var wrong *ParamError
	var failed failure
	switch {
	case errors.As(err, &wrong):
		r.Params = wrong.Error()
	case errors.As(err, &failed):
		answer = map[string]any{"error": failed.Error()}
	case err != nil:
		return err
	}
	if r.Params == "" {
		if r.Answer, err = json.Marshal(answer); err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(r)
}

// A failure is why a tool could not do what it was asked for.
type failure string

func (f failure) Error() string { return string(f) }

// answer is what a client is told of it.
func (f failure) answer() (json.RawMessage, error) {
	return json.Marshal(map[string]any{"error": f.Error()})
}

func failed(format string, args ...any) error { return failure(fmt.Sprintf(format, args...)) }
