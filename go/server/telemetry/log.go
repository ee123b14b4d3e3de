package telemetry

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

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
		people := zerolog.ConsoleWriter{
			Out: w, TimeFormat: time.TimeOnly, NoColor: c.Colors == Never || c.Colors == Auto && !terminal,
			FormatPrepare: forPeople, FieldsOrder: []string{"model", "client", "cached_tokens", "queue_ms", "ttft_ms", "tokens_per_s"},
		}
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

// quiet are routes that programs poll every few seconds.
var quiet = map[string]bool{"/health": true, "/v1/health": true, "/metrics": true, "/slots": true}

// methodLabel maps methods to a limited set of labels: clients may send any method, and each label takes memory.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// Requests logs and counts each request at its end.
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
			case status >= 500 && status != http.StatusServiceUnavailable && status != http.StatusNotImplemented: // 501 is the client's mistake
				e = log.Error()
			case quiet[route] && status < 500:
				e = log.Debug()
			}
			if reason := c.GetString(guard.Refusal); reason != "" {
				e.Str("error", reason)
			}
			e.Str("request", c.GetString(guard.RequestID)).Str("client", guard.ClientOf(c)).
				Str("method", c.Request.Method).Str("path", c.Request.URL.Path).Int("status", status).
				Int("bytes", max(c.Writer.Size(), 0)).Dur("took_ms", time.Since(begun)).Fields(c.GetStringMap(fieldsKey)).Msg(requestMessage)
		}
		defer done()
		c.Next()
		ended = true
	}
}

// fieldsKey is the context key of the log fields that handlers add.
const fieldsKey = "log-fields"

// Note adds fields to the log line of a request.
func Note(c *gin.Context, fields map[string]any) {
	all := c.GetStringMap(fieldsKey)
	if all == nil {
		all = map[string]any{}
		c.Set(fieldsKey, all)
	}
	maps.Copy(all, fields)
}

// requestMessage is the message of a request's log line.
const requestMessage = "request"

// forPeople begins the log line of a request with the facts that readers look for:
//
//	POST /v1/chat/completions 200 2.9 ms 6+5 tokens, length
func forPeople(line map[string]any) error {
	if line[zerolog.MessageFieldName] != requestMessage {
		return nil
	}
	take := func(name string) string {
		v, ok := line[name]
		if !ok {
			return ""
		}
		delete(line, name)
		text := fmt.Sprint(v)
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) { // a terminal would execute it
			return strconv.Quote(text)
		}
		return text
	}
	text := take("method") + " " + take("path") + " " + take("status")
	if ms, err := strconv.ParseFloat(take("took_ms"), 64); err == nil {
		text += " " + readable(ms)
	}
	if prompt := take("prompt_tokens"); prompt != "" {
		text += " " + prompt
		if answer := take("completion_tokens"); answer != "" {
			text += "+" + answer
		}
		text += " tokens"
	}
	if outcome := take("outcome"); outcome != "" && outcome != "stop" {
		text += ", " + outcome
	}
	if reason := take("error"); reason != "" {
		text += ": " + reason
	}
	line[zerolog.MessageFieldName] = text
	return nil
}

// readable formats a time in a suitable unit.
func readable(ms float64) string {
	switch {
	case ms >= 60_000:
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
