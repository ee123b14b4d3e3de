package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep values may nest. Messages with parts take five levels,
// arguments of templates what their authors like.
const maxDepth = 64

// A members is the fields of a JSON object, not decoded yet.
type members map[string]jsontext.Value

// readBody returns the fields of a request. What is not one JSON object in
// UTF-8 is an error that says where; a name that comes twice is one too, since
// readers disagree about which of the two counts.
func readBody(c *gin.Context) (members, error) {
	body, err := readAll(c)
	if err != nil {
		return nil, err
	}
	return parseBody(body)
}

func readAll(c *gin.Context) ([]byte, error) {
	body, err := io.ReadAll(c.Request.Body)
	var slow interface{ Timeout() bool }
	var large *http.MaxBytesError
	switch {
	case err == nil || errors.As(err, &large):
		return body, err
	case errors.As(err, &slow) && slow.Timeout():
		return nil, bad("the body did not arrive in time")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, bad("the body ended early")
	}
	return nil, bad("the body cannot be read: %v", err) // such as chunks of wrong lengths
}

func parseBody(body []byte) (members, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, bad("the body is empty, want a JSON object")
	}
	if err := checkJSON(body); err != nil {
		return nil, err
	}
	m, err := readObject(body)
	if err != nil {
		return nil, bad("the body is %v", err)
	}
	return m, nil
}

// checkJSON reads all of body once.
func checkJSON(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return notJSON(err)
		}
		switch depth := dec.StackDepth(); {
		case depth > maxDepth:
			return bad("the body nests more than %d levels deep", maxDepth)
		case depth == 0:
			if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
				return bad("the body goes on after its JSON object ends, at byte %d", dec.InputOffset())
			}
			return nil
		}
	}
}

func notJSON(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return bad("the body ends in the middle of its JSON")
	case !errors.As(err, &syntax):
		return bad("the body is not JSON: %v", err)
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := syntax.JSONPointer.LastToken()
		return &apiError{status: 400, message: fmt.Sprintf("%s: given twice", quote(name)), param: name}
	}
	return bad("the body is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
}

// readObject returns the fields of an object that checkJSON has passed.
func readObject(v jsontext.Value) (members, error) {
	if v.Kind() != '{' {
		return nil, wrong(v, "an object")
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	m := members{}
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' {
		var name jsontext.Token
		if name, err = dec.ReadToken(); err != nil {
			break
		}
		key := name.String()
		var value jsontext.Value
		if value, err = dec.ReadValue(); err == nil {
			m[key] = value.Clone()
		}
	}
	return m, err
}

// eachOf calls f for the elements of an array that checkJSON has passed.
func eachOf(v jsontext.Value, f func(i int, v jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := f(i, value); err != nil {
			return err
		}
	}
	return nil
}

// wrong says that v is not what was wanted.
func wrong(v jsontext.Value, want string) error {
	return fmt.Errorf("%s, want %s", describe(v), want)
}

// describe is a value in the words of an error: what it is, and itself where it
// is short.
func describe(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "the string " + quote(str(v))
	}
	return clip(string(v))
}

// quote is text in an error: in quotes, and not all of it if it is long.
func quote(text string) string { return `"` + clip(text) + `"` }

func clip(text string) string {
	const most = 40
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// str is the text of a string that checkJSON has passed.
func str(v jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, v)
	return string(text)
}
