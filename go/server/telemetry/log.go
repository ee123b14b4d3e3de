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

// LogConfig says how a log looks.
type LogConfig struct {
	Level  zerolog.Level
	Format Format
	Colors Format    // Auto, Always or Never
	Times  bool      // each line begins with when it was written
	Copy   io.Writer // gets every line as JSON too; nil: there is none
}

// A Format is one of two things, or the one that suits what is written to.
type Format int

const (
	Auto   Format = iota // what suits a terminal on terminals
	Always               // for people, or with colors
	Never                // a JSON object a line, or without
)

// NewLog returns a log on w: for people on a terminal, else a JSON object a line,
// unless c says otherwise.
func NewLog(w io.Writer, c LogConfig) zerolog.Logger {
	f, ok := w.(interface{ Fd() uintptr })
	terminal := ok && isatty.IsTerminal(f.Fd())
	if c.Format == Always || c.Format == Auto && terminal {
		people := zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: c.Colors == Never || c.Colors == Auto && !terminal}
		if !c.Times {
			people.PartsExclude = []string{zerolog.TimestampFieldName}
		}
		w = people
	}
	if c.Copy != nil {
		w = zerolog.MultiLevelWriter(w, c.Copy)
	}
	log := zerolog.New(w).Level(c.Level)
	if c.Times {
		log = log.With().Timestamp().Logger()
	}
	return log
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
