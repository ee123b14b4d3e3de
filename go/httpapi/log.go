package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"

	"github.com/rs/zerolog"
)

// logTo returns the server's log, whose lines go to l.
func logTo(l *slog.Logger) zerolog.Logger {
	if l == nil {
		return zerolog.Nop()
	}
	return zerolog.New(lines{l})
}

// lines passes on lines of a log. It implements zerolog.LevelWriter.
type lines struct{ to *slog.Logger }

func (l lines) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.InfoLevel, line) }

func (l lines) WriteLevel(at zerolog.Level, line []byte) (int, error) {
	level := slog.LevelInfo
	switch {
	case at >= zerolog.ErrorLevel && at < zerolog.NoLevel:
		level = slog.LevelError
	case at == zerolog.WarnLevel:
		level = slog.LevelWarn
	case at < zerolog.InfoLevel:
		level = slog.LevelDebug
	}
	fields := map[string]any{}
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, err
	}
	text, _ := fields[zerolog.MessageFieldName].(string)
	delete(fields, zerolog.MessageFieldName)
	delete(fields, zerolog.LevelFieldName)
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		attrs = append(attrs, slog.Any(name, fields[name]))
	}
	l.to.LogAttrs(context.Background(), level, text, attrs...)
	return len(line), nil
}
