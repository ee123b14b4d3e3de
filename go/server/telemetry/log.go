package telemetry

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/server/guard"
)

// NewLog returns a log on w: for people on a terminal, else a JSON object a line.
func NewLog(w io.Writer, level zerolog.Level) zerolog.Logger {
	if f, ok := w.(interface{ Fd() uintptr }); ok && isatty.IsTerminal(f.Fd()) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// quiet are the routes that are asked every few seconds by machines.
var quiet = map[string]bool{"/health": true, "/v1/health": true, "/metrics": true, "/slots": true}

// methodLabel is one of few: a client may send any word, and each label is kept.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// Requests writes a line for each request when it has ended, and counts it.
func (m *Metrics) Requests(log zerolog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		begun := time.Now()
		ended := false
		done := func() {
			status := c.Writer.Status()
			if !ended { // a panic is on its way up
				status = 500
			}
			route := c.FullPath()
			if route == "" {
				route = "none"
			}
			m.http.WithLabelValues(route, methodLabel(c.Request.Method), strconv.Itoa(status)).Inc()
			e := log.Info()
			switch {
			case status >= 500 && status != 503:
				e = log.Error()
			case quiet[route] && status < 500:
				e = log.Debug()
			}
			e.Str("request", c.GetString(guard.RequestID)).Str("client", c.GetString(guard.Client)).
				Str("method", c.Request.Method).Str("path", c.Request.URL.Path).Int("status", status).
				Int("bytes", max(c.Writer.Size(), 0)).Dur("took", time.Since(begun)).Fields(c.GetStringMap(Fields)).Msg("request")
		}
		defer done()
		c.Next()
		ended = true
	}
}

// Fields is the name under which a handler leaves a map of what the log should
// say of its request.
const Fields = "log-fields"
