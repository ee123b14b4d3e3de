package jsonschema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A value is a JSON value whose members keep their order.
type value struct {
	kind  jsontext.Kind  // 'n', 't', 'f', '"', '0', '{' or '['
	text  string         // of a string: what it says; of a number: how it is written
	names []string       // of an object
	items []*value       // of an array, and of an object's members
	at    map[string]int // where each name of an object is, if they are many
}

// manyNames is a number of names that are not searched one by one.
const manyNames = 16

// member returns a member of an object, nil where it has none of that name.
func (v *value) member(name string) *value {
	if v.at != nil {
		if i, ok := v.at[name]; ok {
			return v.items[i]
		}
		return nil
	}
	if v.kind == '{' {
		for i, n := range v.names {
			if n == name {
				return v.items[i]
			}
		}
	}
	return nil
}

// bool returns whether it is true, and whether it is true or false; nil is neither.
func (v *value) bool() (is, ok bool) {
	return v != nil && v.kind == 't', v != nil && (v.kind == 't' || v.kind == 'f')
}

// count returns a number that is a whole one from 0 on.
func (v *value) count() (int, error) {
	if v.kind == '0' {
		if f, err := strconv.ParseFloat(v.text, 64); err == nil && f >= 0 && f == float64(int32(f)) {
			return int(f), nil
		}
	}
	return 0, fmt.Errorf("%s, want an integer from 0 to 2147483647", v)
}

// strings returns an array of strings.
func (v *value) strings() ([]string, error) {
	if v.kind != '[' {
		return nil, fmt.Errorf("%s, want an array of strings", v)
	}
	out := make([]string, len(v.items))
	for i, item := range v.items {
		if item.kind != '"' {
			return nil, fmt.Errorf("%s among strings", item)
		}
		out[i] = item.text
	}
	return out, nil
}

// String describes the value in a message.
func (v *value) String() string {
	text := v.text
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:40], "") + "..."
	}
	switch v.kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return strconv.Quote(text)
	case '0':
		return text
	}
	return v.kind.String()
}

// parse reads a document.
func parse(text []byte) (*value, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("the schema has %d bytes, want at most %d", len(text), maxBytes)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(text))
	v, err := read(d, 0)
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the schema ends in the middle of its JSON")
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("the schema is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
	case err != nil:
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the schema goes on after its JSON ends, at byte %d", d.InputOffset())
	}
	return v, nil
}

func read(d *jsontext.Decoder, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("the schema nests more than %d levels deep", maxNesting)
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	v := &value{kind: t.Kind()}
	switch v.kind {
	case '"', '0':
		v.text = t.String()
	case '[':
		for d.PeekKind() != ']' {
			item, err := read(d, depth+1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item)
		}
		_, err = d.ReadToken()
	case '{':
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			v.names = append(v.names, name.String())
			item, err := read(d, depth+1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item)
		}
		if len(v.names) > manyNames {
			v.at = make(map[string]int, len(v.names))
			for i, name := range v.names {
				v.at[name] = i
			}
		}
		_, err = d.ReadToken()
	}
	return v, err
}
