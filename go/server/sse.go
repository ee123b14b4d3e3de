package server

import (
	"bytes"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// reply sends a whole answer.
func reply(c *gin.Context, status int, v any) {
	body, err := encode(v)
	if err != nil {
		c.Data(http.StatusInternalServerError, jsonType, []byte(`{"error":{"code":500,"message":"internal error","type":"server_error"}}`))
		return
	}
	c.Data(status, jsonType, body)
}

const jsonType = "application/json; charset=utf-8"

// encode is JSON in a fixed order. Bytes that are no text become U+FFFD.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// A stream sends server-sent events. Its header goes out with the first of
// them, so that a request which fails before has a status of its own.
type stream struct {
	c    *gin.Context
	rc   *http.ResponseController
	open bool
	buf  bytes.Buffer
}

func newStream(c *gin.Context) *stream {
	return &stream{c: c, rc: http.NewResponseController(c.Writer)}
}

// event adds an event to those that flush sends.
func (s *stream) event(v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	s.raw(string(body))
	return nil
}

func (s *stream) raw(data string) {
	s.buf.WriteString("data: ")
	s.buf.WriteString(data)
	s.buf.WriteString("\n\n")
}

// fail adds an error as an event, and after it the data that ends a stream.
func (s *stream) fail(err *apiError, last string) error {
	if err := s.event(err.body()); err != nil {
		return err
	}
	if last != "" {
		s.raw(last)
	}
	return nil
}

// ping adds a comment, which tells whoever is between that the stream lives.
func (s *stream) ping() { s.buf.WriteString(": ping\n\n") }

func (s *stream) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	if !s.open {
		s.open = true
		h := s.c.Writer.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // or nginx collects what should come at once
		s.c.Status(http.StatusOK)
	}
	_, err := s.c.Writer.Write(s.buf.Bytes())
	s.buf.Reset()
	if err == nil {
		err = s.rc.Flush()
	}
	return err
}
