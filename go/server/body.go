package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// receive reads the body, unless it is there.
func (r *Request) receive() (err error) {
	if r.received {
		return nil
	}
	if how := r.HTTP.GetHeader("Content-Encoding"); how != "" && !strings.EqualFold(how, "identity") {
		return &reply.Error{Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("Content-Encoding: %s, want a body that is not compressed", field.Quote(how)), Param: "Content-Encoding"}
	}
	r.body, err = readAll(r.HTTP.Request.Body)
	r.received = err == nil
	return err
}

// errNamed stops the walk of a body once the model's name is found.
var errNamed = errors.New("the model is named")

// modelName returns the model that a body names, or "". Errors in the body are reported
// later, when its fields are read.
func modelName(body []byte) string { return nameIn(body, "model") }

// nameIn returns the text of a member of a body, or "".
func nameIn(body []byte, which string) (name string) {
	r := field.NewReader(body)
	_ = r.Members("an object", func(member string) (err error) {
		if member != which || r.Kind() != '"' {
			_, err = r.Raw()
			return err
		}
		if name, err = r.Text("a name"); err == nil {
			err = errNamed
		}
		return err
	})
	return name
}

func readAll(from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(from)
	var slow interface{ Timeout() bool }
	var large *http.MaxBytesError
	switch {
	case err == nil || errors.As(err, &large):
		return body, err
	case errors.As(err, &slow) && slow.Timeout():
		return nil, reply.Bad("the body did not arrive in time")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, reply.Bad("the body ended early")
	}
	return nil, reply.Bad("the body cannot be read: %v", err) // such as chunks of wrong lengths
}
