package field

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/reply"
)

// maxDepth is the maximum nesting depth. Messages with parts take five levels, template
// arguments as many as their authors like.
const maxDepth = 64

// A Reader parses the JSON of a request in one pass. Duplicate names are errors, since
// parsers disagree about which of the values counts.
type Reader struct {
	body  []byte
	dec   *jsontext.Decoder
	fault error // a JSON syntax error, which takes precedence over a wrong value
}

// NewReader returns a reader of a body.
func NewReader(body []byte) *Reader {
	return &Reader{body: body, dec: jsontext.NewDecoder(bytes.NewBuffer(body))}
}

// Kind returns the kind of the next value.
func (r *Reader) Kind() jsontext.Kind { return r.dec.PeekKind() }

// Token returns the next token, which is valid until the next call.
func (r *Reader) Token() (jsontext.Token, error) {
	t, err := r.dec.ReadToken()
	switch {
	case err != nil:
		r.fault = notJSON(err)
	case r.dec.StackDepth() > maxDepth:
		r.fault = reply.Bad("the body nests more than %d levels deep", maxDepth)
	}
	return t, r.fault
}

// Raw returns the next value as it was sent.
func (r *Reader) Raw() (jsontext.Value, error) {
	from, depth := r.Offset(), r.dec.StackDepth()
	for {
		if _, err := r.Token(); err != nil {
			return nil, err
		}
		if r.dec.StackDepth() <= depth {
			return r.Since(from), nil
		}
	}
}

// Offset returns the position in the body before the next value, for Since.
func (r *Reader) Offset() int64 { return r.dec.InputOffset() }

// Since returns the value that was read from offset from on.
func (r *Reader) Since(from int64) jsontext.Value {
	return bytes.TrimLeft(r.body[from:r.dec.InputOffset()], " \t\r\n,:")
}

// Text returns the next value, a string.
func (r *Reader) Text(want string) (string, error) {
	if r.Kind() != '"' {
		return "", r.Wrong(want)
	}
	t, err := r.Token()
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// Decode reads the next value into v. The value is read as tokens first, which bounds its
// depth before anything recurses into it.
func (r *Reader) Decode(v any) error {
	value, err := r.Raw()
	if err != nil {
		return err
	}
	return Decode(value, v)
}

// Decode reads a value into v, and says what of it has the wrong type.
func Decode(value jsontext.Value, v any) error {
	err := json.Unmarshal(value, v)
	var wrong *json.SemanticError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s at %q, want %s", wrong.JSONKind, wrong.JSONPointer, wrong.GoType)
	}
	return err
}

// Optional reads the next value, a string or null, into p.
func (r *Reader) Optional(p *string) (err error) {
	if r.Kind() == 'n' {
		_, err = r.Token()
		return err
	}
	*p, err = r.Text("a string")
	return err
}

// Elements calls f for each element of the next value, an array. f reads it.
func (r *Reader) Elements(want string, f func(i int) error) error {
	if r.Kind() != '[' {
		return r.Wrong(want)
	}
	_, err := r.Token()
	for i := 0; err == nil && r.Kind() != ']'; i++ {
		err = f(i)
	}
	if err == nil {
		_, err = r.Token()
	}
	return err
}

// Members calls f for each name in the next value, an object. f reads its value.
func (r *Reader) Members(want string, f func(name string) error) error {
	if r.Kind() != '{' {
		return r.Wrong(want)
	}
	_, err := r.Token()
	for err == nil && r.Kind() != '}' {
		var name jsontext.Token
		if name, err = r.Token(); err == nil {
			err = f(name.String())
		}
	}
	if err == nil {
		_, err = r.Token()
	}
	return err
}

// End returns an error if any data follows.
func (r *Reader) End() error {
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return reply.Bad("the body goes on after its JSON ends, at byte %d", r.dec.InputOffset())
	}
	return nil
}

// Wrong reads the next value and returns the error that it is not what was wanted.
func (r *Reader) Wrong(want string) error {
	v, err := r.Raw()
	if err != nil {
		return err
	}
	return Wrong(v, want)
}

// Except returns the members of an object but for those with these names, a comma before each, and the brace at its end.
func Except(object jsontext.Value, names ...string) []byte {
	var out []byte
	r := NewReader(object)
	_ = r.Members("an object", func(name string) error { // which it is
		v, err := r.Raw()
		if !slices.Contains(names, name) {
			out = append(out, ',')
			out, _ = jsontext.AppendQuote(out, name)
			out = append(append(out, ':'), v...)
		}
		return err
	})
	return append(out, '}')
}

// notJSON is the error of a body that is not JSON.
func notJSON(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return reply.Bad("the body ends in the middle of its JSON")
	case !errors.As(err, &syntax):
		return reply.Bad("the body is not JSON: %v", err)
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := syntax.JSONPointer.LastToken()
		return &reply.Error{Status: 400, Message: fmt.Sprintf("%s: given twice", Quote(name)), Param: name}
	}
	return reply.Bad("the body is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
}

// Peek returns the values of some members of a body, in one walk. Of a body that is malformed it returns those before the
// fault, and the error.
func Peek(body []byte, names ...string) (map[string]jsontext.Value, error) {
	found := map[string]jsontext.Value{}
	r := NewReader(body)
	err := r.Members("an object", func(name string) error {
		v, err := r.Raw()
		if err == nil && slices.Contains(names, name) {
			found[name] = v
		}
		return err
	})
	return found, err
}

// TextOf returns a value that is a text, "" of any other.
func TextOf(v jsontext.Value) string {
	text, _ := NewReader(v).Text("a text")
	return text
}
