package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/reply"
)

// maxDepth is the maximum nesting depth. Messages with parts take five levels, template
// arguments as many as their authors like.
const maxDepth = 64

// A reader parses the JSON of a request in one pass. Duplicate names are errors, since
// parsers disagree about which of the values counts.
type reader struct {
	body  []byte
	dec   *jsontext.Decoder
	fault error // a JSON syntax error, which takes precedence over a wrong value
}

// newReader returns a reader of a body.
func newReader(body []byte) *reader {
	return &reader{body: body, dec: jsontext.NewDecoder(bytes.NewBuffer(body))}
}

// kind returns the kind of the next value.
func (r *reader) kind() jsontext.Kind { return r.dec.PeekKind() }

// token returns the next token, which is valid until the next call.
func (r *reader) token() (jsontext.Token, error) {
	t, err := r.dec.ReadToken()
	switch {
	case err != nil:
		r.fault = notJSON(err)
	case r.dec.StackDepth() > maxDepth:
		r.fault = reply.Bad("the body nests more than %d levels deep", maxDepth)
	}
	return t, r.fault
}

// raw returns the next value as it was sent.
func (r *reader) raw() (jsontext.Value, error) {
	from, depth := r.offset(), r.dec.StackDepth()
	for {
		if _, err := r.token(); err != nil {
			return nil, err
		}
		if r.dec.StackDepth() <= depth {
			return r.since(from), nil
		}
	}
}

// offset is where in the body the next value is, or the comma before it.
func (r *reader) offset() int64 { return r.dec.InputOffset() }

// since returns the value that was read from offset from on.
func (r *reader) since(from int64) jsontext.Value {
	return bytes.TrimLeft(r.body[from:r.dec.InputOffset()], " \t\r\n,:")
}

// text returns the next value, a string.
func (r *reader) text(want string) (string, error) {
	if r.kind() != '"' {
		return "", r.wrong(want)
	}
	t, err := r.token()
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// decode reads the next value into v. The value is read as tokens first, which bounds its
// depth before anything recurses into it.
func (r *reader) decode(v any) error {
	value, err := r.raw()
	if err != nil {
		return err
	}
	return decode(value, v)
}

// decode reads a value into v, and says what of it has the wrong type.
func decode(value jsontext.Value, v any) error {
	err := json.Unmarshal(value, v)
	var wrong *json.SemanticError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s at %q, want %s", wrong.JSONKind, wrong.JSONPointer, wrong.GoType)
	}
	return err
}

// optional reads the next value, a string or null, into p.
func (r *reader) optional(p *string) (err error) {
	if r.kind() == 'n' {
		_, err = r.token()
		return err
	}
	*p, err = r.text("a string")
	return err
}

// elements calls f for each element of the next value, an array. f reads it.
func (r *reader) elements(want string, f func(i int) error) error {
	if r.kind() != '[' {
		return r.wrong(want)
	}
	_, err := r.token()
	for i := 0; err == nil && r.kind() != ']'; i++ {
		err = f(i)
	}
	if err == nil {
		_, err = r.token()
	}
	return err
}

// members calls f for each name in the next value, an object. f reads its value.
func (r *reader) members(want string, f func(name string) error) error {
	if r.kind() != '{' {
		return r.wrong(want)
	}
	_, err := r.token()
	for err == nil && r.kind() != '}' {
		var name jsontext.Token
		if name, err = r.token(); err == nil {
			err = f(name.String())
		}
	}
	if err == nil {
		_, err = r.token()
	}
	return err
}

// except returns the members of an object but for those with these names, a comma before each, and the brace at its end.
func except(object jsontext.Value, names ...string) []byte {
	var out []byte
	r := newReader(object)
	_ = r.members("an object", func(name string) error { // which it is
		v, err := r.raw()
		if !slices.Contains(names, name) {
			out = append(out, ',')
			out, _ = jsontext.AppendQuote(out, name)
			out = append(append(out, ':'), v...)
		}
		return err
	})
	return append(out, '}')
}

// end returns an error if any data follows.
func (r *reader) end() error {
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return reply.Bad("the body goes on after its JSON ends, at byte %d", r.dec.InputOffset())
	}
	return nil
}

// wrong reads the next value and returns the error that it is not what was wanted.
func (r *reader) wrong(want string) error {
	v, err := r.raw()
	if err != nil {
		return err
	}
	return wrong(v, want)
}

// wrong is the error that a value is not what was wanted.
func wrong(v jsontext.Value, want string) error {
	return fmt.Errorf("%s, want %s", describe(v), want)
}

// at adds the name of the field to an error about its value.
func at(name string, err error) error {
	if api, ok := err.(*reply.Error); ok { // which has a status of its own
		api.Message, api.Param = name+": "+api.Message, name
		return api
	}
	return reply.Invalid(name, "%v", err)
}

// wrap adds the position in a value to an error, if there is one.
func wrap(where string, err error) error {
	if err == nil {
		return nil
	}
	if api, ok := err.(*reply.Error); ok {
		api.Message = where + ": " + api.Message
		return api
	}
	return fmt.Errorf("%s: %w", where, err)
}

func notJSON(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return reply.Bad("the body ends in the middle of its JSON")
	case !errors.As(err, &syntax):
		return reply.Bad("the body is not JSON: %v", err)
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := syntax.JSONPointer.LastToken()
		return &reply.Error{Status: 400, Message: fmt.Sprintf("%s: given twice", quote(name)), Param: name}
	}
	return reply.Bad("the body is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
}

// describe is a value for an error message: its type, and the value itself if it is
// short.
func describe(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		text, _ := jsontext.AppendUnquote(nil, v)
		return "the string " + quote(string(text))
	}
	return clip(string(v))
}

// quote is text for an error message: in quotes, and truncated if it is long.
func quote(text string) string { return `"` + clip(text) + `"` }

// clip truncates a text that is long.
func clip(text string) string {
	const most = 40
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
