package persona

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// refusals are the instructions of a Modelfile that are not supported, and what works in their place.
var refusals = map[string]string{
	"TEMPLATE": "templates of Ollama are in another language; leave it out: the model's file has its own, and " +
		"--chat-template-file takes one in Jinja",
	"ADAPTER":  "an adapter is loaded with --lora NAME=FILE, and \"quern merge-lora\" makes a model of both; leave it out",
	"RENDERER": "the template of the model's file renders conversations; leave it out",
	"PARSER":   "replies are parsed as the template of the model's file has it; leave it out",
	"REQUIRES": "there are no versions of Ollama here; leave it out",
}

// ParseModelfile parses a Modelfile. A value stands on the rest of its line, or between " or """, where it may have
// several lines. One that has """ itself stands between fences: lines of four or more ", the same number above and below.
func ParseModelfile(text string) (*Persona, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the Modelfile has %d bytes, want at most %d", len(text), MaxBytes)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the Modelfile is not UTF-8")
	}
	var p Persona
	r := modelfile{rest: lineEnds.Replace(strings.TrimPrefix(text, "\ufeff")), line: 1}
	for r.next() {
		line := r.line
		if err := p.instruct(&r); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if p.From == "" {
		return nil, errors.New("no FROM; want a line such as FROM qwen3, with the model that it is made from")
	}
	return &p, p.Check()
}

// lineEnds makes all ends of lines the same.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// triple are the quotes of values that have several lines, as most do.
const triple = `"""`

// A modelfile is one that is being parsed.
type modelfile struct {
	rest string
	line int // of rest
}

// next skips blank lines and comments, and reports whether more follows.
func (r *modelfile) next() bool {
	for r.rest != "" {
		line, _, _ := strings.Cut(r.rest, "\n")
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return true
		}
		r.skip(lineLen(r.rest))
	}
	return false
}

// lineLen returns the length of the first line, with its end.
func lineLen(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i + 1
	}
	return len(s)
}

// skip drops n bytes.
func (r *modelfile) skip(n int) string {
	s := r.rest[:n]
	r.line += strings.Count(s, "\n")
	r.rest = r.rest[n:]
	return s
}

// word returns the next word of the line; empty: there is none.
func (r *modelfile) word() string {
	blanks := len(r.rest) - len(strings.TrimLeft(r.rest, " \t"))
	r.skip(blanks)
	n := strings.IndexAny(r.rest, " \t\n")
	if n < 0 {
		n = len(r.rest)
	}
	return r.skip(n)
}

// value returns the rest of the line, or what stands between quotes, and skips the line's end.
func (r *modelfile) value() (string, error) {
	r.skip(len(r.rest) - len(strings.TrimLeft(r.rest, " \t")))
	if value, n, ok := fenced(r.rest); ok {
		r.skip(n)
		return value, nil
	}
	switch {
	case strings.HasPrefix(r.rest, triple):
		end := strings.Index(r.rest[len(triple):], triple)
		if end < 0 {
			return "", fmt.Errorf("a value that begins with %s has no such end", triple)
		}
		end += 2 * len(triple)
		for end < len(r.rest) && r.rest[end] == '"' { // quotes of the value stand before the last three
			end++
		}
		n := lineLen(r.rest[end:])
		if after := strings.TrimSpace(r.rest[end : end+n]); after != "" {
			return "", fmt.Errorf("%.40q follows the end of a value", after)
		}
		return r.skip(end + n)[len(triple) : end-len(triple)], nil
	case strings.HasPrefix(r.rest, `"`):
		for end := 1; end < len(r.rest); {
			line := end
			end += lineLen(r.rest[end:])
			if last, ok := strings.CutSuffix(strings.TrimRight(r.rest[line:end], " \t\n"), `"`); ok { // the last of its line
				return r.skip(end)[1 : line+len(last)], nil
			}
		}
		return "", errors.New(`a value that begins with " has no such end`)
	}
	return strings.TrimSpace(r.skip(lineLen(r.rest))), nil
}

// fenced returns the value between two fences, the first of which s begins with, and how long all of it is.
func fenced(s string) (value string, n int, ok bool) {
	fence := s[:len(s)-len(strings.TrimLeft(s, `"`))]
	if len(fence) <= len(triple) || !strings.HasPrefix(s[len(fence):], "\n") {
		return "", 0, false
	}
	begin := len(fence) + 1
	for at := begin; at < len(s); {
		end := at + lineLen(s[at:])
		if at > begin && strings.TrimSuffix(s[at:end], "\n") == fence {
			return s[begin : at-1], end, true
		}
		at = end
	}
	return "", 0, false
}

// instruct reads an instruction.
func (p *Persona) instruct(r *modelfile) error {
	word := r.word()
	name := ""
	switch what := strings.ToUpper(word); what {
	case "FROM", "SYSTEM", "LICENSE":
	case "PARAMETER", "MESSAGE":
		name = r.word()
	default:
		if why := refusals[what]; why != "" {
			return fmt.Errorf("%s is not supported: %s", what, why)
		}
		return fmt.Errorf("%.40q is no instruction, want FROM, SYSTEM, PARAMETER, MESSAGE or LICENSE", word)
	}
	value, err := r.value()
	switch what := strings.ToUpper(word); {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case value == "" && what != "SYSTEM" && what != "MESSAGE", what == "FROM" && strings.TrimSpace(value) == "":
		return fmt.Errorf("%s has no value", what)
	case what == "FROM" && p.From != "":
		return fmt.Errorf("FROM is there twice: %.80q and %.80q; want one", p.From, value)
	case what == "FROM":
		p.From = strings.TrimSpace(value)
	case what == "SYSTEM":
		p.System = value
	case what == "LICENSE":
		p.License = strings.TrimPrefix(p.License+"\n"+value, "\n")
	case what == "PARAMETER":
		return p.Parameters.Add(strings.ToLower(name), value)
	case what == "MESSAGE":
		p.Messages = append(p.Messages, Message{strings.ToLower(name), value})
	}
	return nil
}

// quoted returns a value as a Modelfile has it.
func quoted(s string) string {
	s = lineEnds.Replace(s)
	switch {
	case s == "":
		return `""`
	case s == strings.TrimSpace(s) && !strings.ContainsAny(s, "\"\n"):
		return s
	case s[0] != '"' && !strings.Contains(s, triple):
		return triple + s + triple
	}
	fence := triple + `"`
	for strings.Contains(s, fence) {
		fence += `"`
	}
	return fence + "\n" + s + "\n" + fence
}
