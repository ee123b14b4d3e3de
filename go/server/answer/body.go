package answer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Receive reads the body, unless it is there.
func (req *Request) Receive() (err error) {
	if req.received {
		return nil
	}
	if how := req.HTTP.GetHeader("Content-Encoding"); how != "" && !strings.EqualFold(how, "identity") {
		return &reply.Error{Status: http.StatusUnsupportedMediaType,
			Message: fmt.Sprintf("Content-Encoding: %s, want a body that is not compressed", field.Quote(how)),
			Param:   "Content-Encoding"}
	}
	req.Body, err = req.readBody()
	req.received = err == nil
	return err
}

// peeked are the members of a body that are looked at before its fields are read: which they are, and what they mean,
// may depend on the model.
var peeked = []string{"model", "name", "stream", "keep_alive", "prompt", "suffix", "messages", "store"}

// Peek returns one of them, nil where it is missing. Faults in the body are reported later, when its fields are read.
func (req *Request) Peek(name string) jsontext.Value {
	if req.peeks == nil {
		var err error
		req.peeks, err = field.Peek(req.Body, peeked...)
		req.Malformed = err != nil
	}
	return req.peeks[name]
}

// Unread returns the error of reading a body, nil for none, as the client is told it.
func Unread(err error) error {
	var slow interface{ Timeout() bool }
	var large *http.MaxBytesError
	var short *reply.Error
	switch {
	case err == nil || errors.As(err, &large) || errors.As(err, &short):
		return err
	case errors.As(err, &slow) && slow.Timeout():
		return reply.Bad("the body did not arrive in time")
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return reply.Bad("the body ended early")
	}
	return reply.Bad("the body cannot be read: %v", err) // such as chunks of wrong lengths
}
