package reply

import (
	"bytes"
	"net/http"

	"github.com/gin-gonic/gin"
)

// maxUnsent is how many bytes are combined before they are sent. It limits the buffer if a slow client lets events pile
// up.
const maxUnsent = 64 << 10

// A Stream sends server-sent events. The header is sent with the first event, so a request that fails before it has a
// status of its own.
type Stream struct {
	c     *gin.Context
	rc    *http.ResponseController
	sent  bool // the header was sent
	lines bool // each event is just a line
	buf   bytes.Buffer
}

// NewStream returns a stream of server-sent events.
func NewStream(c *gin.Context) *Stream {
	return &Stream{c: c, rc: http.NewResponseController(c.Writer)}
}

// Resume returns a stream that continues one whose header has been sent.
func Resume(c *gin.Context) *Stream {
	s := NewStream(c)
	s.sent = true
	return s
}

// NewLines returns a stream of lines of JSON (NDJSON) in place of events.
func NewLines(c *gin.Context) *Stream {
	s := NewStream(c)
	s.lines = true
	return s
}

// Context returns the context of the request.
func (s *Stream) Context() *gin.Context { return s.c }

// Begun reports whether anything was sent.
func (s *Stream) Begun() bool { return s.sent }

// Unsent reports whether anything is buffered.
func (s *Stream) Unsent() bool { return s.buf.Len() > 0 }

// Full reports whether the buffer should be flushed.
func (s *Stream) Full() bool { return s.buf.Len() > maxUnsent }

// Event buffers an event until the next Flush.
func (s *Stream) Event(v any) error {
	body, err := Encode(v)
	if err != nil {
		return err
	}
	s.Raw(string(body))
	return nil
}

// Named buffers an event with a name.
func (s *Stream) Named(name string, v any) error {
	writeName(&s.buf, name)
	return s.Event(v)
}

// writeName writes the line with an event's name.
func writeName(b *bytes.Buffer, name string) {
	b.WriteString("event: ")
	b.WriteString(name)
	b.WriteByte('\n')
}

// writeData writes the data of an event, which end it.
func writeData(b *bytes.Buffer, data string) {
	b.WriteString("data: ")
	b.WriteString(data)
	b.WriteString("\n\n")
}

// Raw buffers an event with the given data.
func (s *Stream) Raw(data string) {
	if s.lines {
		s.buf.WriteString(data)
		s.buf.WriteByte('\n')
		return
	}
	writeData(&s.buf, data)
}

// Fail adds an error event, and after it the data that ends the stream.
func (s *Stream) Fail(err *Error, last string) error {
	if err := s.Event(err.Body()); err != nil {
		return err
	}
	if last != "" {
		s.Raw(last)
	}
	return nil
}

// Ping buffers a comment, which keeps the connection alive through proxies.
func (s *Stream) Ping() {
	if !s.lines { // lines have no comments
		s.buf.WriteString(": ping\n\n")
	}
}

// Flush sends what is buffered.
func (s *Stream) Flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	if !s.sent {
		s.sent = true
		h := s.c.Writer.Header()
		h.Set("Content-Type", "text/event-stream")
		if s.lines {
			h.Set("Content-Type", "application/x-ndjson")
		}
		h.Set("Cache-Control", "no-store")
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
