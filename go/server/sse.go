package server

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const jsonType = "application/json; charset=utf-8"

// inJSON are the options for encoding JSON: in deterministic order, with invalid UTF-8
// replaced by U+FFFD.
var inJSON = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

func encode(v any) ([]byte, error) { return json.Marshal(v, inJSON) }

// reply sends a whole response while it is encoded.
func reply(c *gin.Context, status int, v any) {
	b := &answerBody{c: c, status: status}
	if err := json.MarshalWrite(b, v, inJSON); err != nil && !b.begun {
		b.status, b.buf = http.StatusInternalServerError, []byte(`{"error":{"code":500,"message":"internal error","type":"server_error"}}`)
	}
	b.end()
}

// An answerBody is the body of a whole response. A short one is sent with its
// Content-Length, a long one in chunks.
type answerBody struct {
	c      *gin.Context
	status int
	begun  bool
	buf    []byte
}

func (b *answerBody) Write(p []byte) (int, error) {
	b.buf = append(b.buf, p...)
	if len(b.buf) < maxUnsent {
		return len(p), nil
	}
	return len(p), b.flush()
}

func (b *answerBody) flush() error {
	if !b.begun {
		b.begun = true
		b.c.Header("Content-Type", jsonType)
		b.c.Status(b.status)
	}
	_, err := b.c.Writer.Write(b.buf)
	b.buf = b.buf[:0]
	return err
}

func (b *answerBody) end() {
	if !b.begun {
		b.c.Header("Content-Length", strconv.Itoa(len(b.buf)))
	}
	_ = b.flush() // fails only if the client has disconnected
}

// A stream sends server-sent events. Its header is sent with the first event, so that a
// request that fails before it has a status of its own.
type stream struct {
	c    *gin.Context
	rc   *http.ResponseController
	open bool
	buf  bytes.Buffer

	lines bool // each event is a line of its own, without more
}

func newStream(c *gin.Context) *stream {
	return &stream{c: c, rc: http.NewResponseController(c.Writer)}
}

// event buffers an event until flush.
func (s *stream) event(v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	s.raw(string(body))
	return nil
}

// named buffers an event with a name.
func (s *stream) named(name string, v any) error {
	s.buf.WriteString("event: ")
	s.buf.WriteString(name)
	s.buf.WriteByte('\n')
	return s.event(v)
}

// logged buffers an event that was kept.
func (s *stream) logged(e loggedEvent) {
	s.buf.WriteString("event: ")
	s.buf.WriteString(e.name)
	s.buf.WriteByte('\n')
	s.raw(string(e.body))
}

func (s *stream) raw(data string) {
	if s.lines {
		s.buf.WriteString(data)
		s.buf.WriteByte('\n')
		return
	}
	s.buf.WriteString("data: ")
	s.buf.WriteString(data)
	s.buf.WriteString("\n\n")
}

// fail adds an error event, and after it the data that ends the stream.
func (s *stream) fail(err *apiError, last string) error {
	if err := s.event(err.body()); err != nil {
		return err
	}
	if last != "" {
		s.raw(last)
	}
	return nil
}

// ping adds a comment, which keeps the connection alive through proxies.
func (s *stream) ping() error {
	if s.lines { // which have no comments
		return nil
	}
	s.buf.WriteString(": ping\n\n")
	return nil
}

func (s *stream) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	if !s.open {
		s.open = true
		h := s.c.Writer.Header()
		h.Set("Content-Type", "text/event-stream")
		if s.lines {
			h.Set("Content-Type", "application/x-ndjson")
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // keeps nginx from buffering the stream
		s.c.Status(http.StatusOK)
	}
	_, err := s.c.Writer.Write(s.buf.Bytes())
	s.buf.Reset()
	if err == nil {
		err = s.rc.Flush()
	}
	return err
}
