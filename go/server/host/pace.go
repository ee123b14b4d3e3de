package host

import (
	"net/http"
	"time"
)

// partBytes is how many bytes a client has to read within the limit.
const partBytes = 256 << 10

// A pacedWriter sets a write deadline for each part of a response, so that a client
// that stops reading does not hold the response and its resources for long.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// pace returns w with a deadline for the writing of each part. It clears the deadline
// that an earlier response left on the connection.
func pace(w http.ResponseWriter, limit time.Duration) *pacedWriter {
	p := &pacedWriter{w, http.NewResponseController(w), limit}
	_ = p.control.SetWriteDeadline(time.Time{}) // not supported where there is no connection
	return p
}

// Write sets the deadline, which stays set: it also covers what is still in buffers.
func (p *pacedWriter) Write(b []byte) (n int, err error) {
	for {
		part := b[n:min(len(b), n+partBytes)]
		_ = p.control.SetWriteDeadline(time.Now().Add(p.limit))
		m, err := p.ResponseWriter.Write(part)
		n += m
		if err != nil || n >= len(b) {
			return n, err
		}
	}
}

// Flush implements http.Flusher.
func (p *pacedWriter) Flush() { _ = p.control.Flush() }

// FlushError and Unwrap are used by http.ResponseController.
func (p *pacedWriter) FlushError() error           { return p.control.Flush() }
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
