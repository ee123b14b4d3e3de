package host

import (
	"net/http"
	"time"
)

// partBytes is how much a client has to take within the limit.
const partBytes = 256 << 10

// A pacedWriter gives the client a time limit for each part of an answer, so that
// who does not read holds neither the answer nor what makes it for long.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// pace returns w with a limit on the writing of each part. A limit that an answer
// before this one left on the connection is gone.
func pace(w http.ResponseWriter, limit time.Duration) *pacedWriter {
	p := &pacedWriter{w, http.NewResponseController(w), limit}
	_ = p.control.SetWriteDeadline(time.Time{}) // not supported where there is no connection
	return p
}

// Write sets the limit, which stays: what is still in buffers has it too.
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

// Flush is for those who ask for a http.Flusher.
func (p *pacedWriter) Flush() { _ = p.control.Flush() }

// FlushError and Unwrap are for http.ResponseController.
func (p *pacedWriter) FlushError() error           { return p.control.Flush() }
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
