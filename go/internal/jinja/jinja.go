// Package jinja runs templates written in Jinja, the language of chat
// templates, as Python's jinja2 does with the settings that chat templates
// are written for: trim_blocks, lstrip_blocks, loop controls, the generation
// block, no escaping of HTML, and nothing that changes a list or a dict.
//
// Templates come with model files, so they are not trusted. A template has access
// only to its variables: it cannot include another or read a file. Each rendering
// has Limits on its work and its memory, which are checked before they are spent,
// and recursion is bounded.
//
// A value of the language is nil (none), bool, int64, *big.Int, float64,
// string, *Text, *List, *Dict or Func; others are created by templates only.
// A filter or a test that does not exist is an error where it is evaluated.
// Where jinja2 makes a generator, as map and select do, this makes a list.
package jinja

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxSource  = 1 << 20 // bytes of a template; the longest in use have 30 thousand
	maxNesting = 200     // of expressions and blocks in the source
	maxDepth   = 4000    // of evaluation: macros that call themselves
	maxRange   = 100000  // of range(), as in jinja2's sandbox
)

// ErrLimit is wrapped by the error for a template that exceeds a limit.
var ErrLimit = errors.New("too much for one template")

// Error is an error at a line of the template.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("template line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Limits bound one rendering. What a step costs is bounded: millions of steps are a second.
type Limits struct {
	Steps int // expressions evaluated, and units of 32 bytes of text scanned
	Bytes int // of text and lists allocated, whether or not still in use
}

// Func is a function that templates can call. Its error ends the rendering,
// and is wrapped by what Render returns.
type Func func(args []any) (any, error)

// Template is a parsed template. Several goroutines may render it.
type Template struct {
	body []stmt
}

// Parse reads a template.
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("template has %d bytes, more than %d: %w", len(source), maxSource, ErrLimit)
	}
	if !utf8.ValidString(source) {
		return nil, errors.New("template is not UTF-8")
	}
	p := &parser{}
	defer func() { err = recovered(recover(), p.line(), err) }()
	p.tokens = lex(source)
	body, _ := p.body()
	return &Template{body}, nil
}

// Render runs the template with these variables, until ctx ends. It takes what it uses from the limits. outside are the
// parts of the text that come from values of Outside, and not from the template: pairs of positions, in order.
func (t *Template) Render(ctx context.Context, vars map[string]any, limits *Limits) (text string, outside [][2]int, err error) {
	it := &interp{ctx: ctx, limits: limits, out: new(builder)}
	defer func() { err = recovered(recover(), it.line, err) }()
	globals := &scope{vars: make(map[string]any, len(functions)+len(vars))}
	for name, fn := range functions {
		globals.vars[name] = fn
	}
	for name, v := range vars {
		globals.vars[name] = v
	}
	it.exec(t.body, &scope{parent: globals})
	return it.out.String(), it.out.outside, nil
}

// recovered converts a panic to an error. Lexer, parser and interpreter stop by
// fail; any other panic is a bug in this package, which must not end the program.
func recovered(r any, line int, err error) error {
	switch r := r.(type) {
	case nil:
		return err
	case *Error:
		if r.Line == 0 {
			r.Line = line
		}
		return r
	default:
		return &Error{line, fmt.Errorf("bug in the interpreter: %v", r)}
	}
}

func fail(format string, args ...any) { panic(&Error{Err: fmt.Errorf(format, clip(args)...)}) }

// mostQuoted is how many bytes of a template's text a message quotes.
const mostQuoted = 80

// clip shortens texts for a message.
func clip(args []any) []any {
	for i, v := range args {
		if s, ok := v.(string); ok && len(s) > mostQuoted {
			args[i] = strings.ToValidUTF8(s[:mostQuoted], "") + "..."
		}
	}
	return args
}
