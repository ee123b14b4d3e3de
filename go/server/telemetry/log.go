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

// LogConfig configures a log.
type LogConfig struct {
	Level  zerolog.Level
	Format Format
	Colors Format    // Auto, Always or Never
	Times  bool      // each line begins with a timestamp
	Copy   io.Writer // also gets every line as JSON; nil: none
}

// A Format selects between two formats, or leaves the choice to the output.
type Format int

const (
	Auto   Format = iota // by whether the output is a terminal
	Always               // human-readable, or colored
	Never                // one JSON object per line, or uncolored
)

// NewLog returns a log on w: human-readable on a terminal, else one JSON object per
// line, unless c says otherwise.
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

// quiet are the routes that machines poll every few seconds.
var quiet = map[string]bool{"/health": true, "/v1/health": true, "/metrics": true, "/slots": true}

// methodLabel maps methods to a bounded set of labels: clients may send any method, and
// each label takes memory.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// Requests logs and counts each request when it has ended.
func (m *Metrics) Requests(log zerolog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		begun := time.Now()
		ended := false
		done := func() {
			status := c.Writer.Status()
			if !ended { // a panic is propagating
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

// Fields is the context key under which a handler leaves a map of its log fields.
const Fields = "log-fields"
