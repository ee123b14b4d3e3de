package main

import (
	"io"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/server/telemetry"
)

// logFlags control the content and format of the log.
type logFlags struct {
	level  string
	file   string
	json   bool
	colors string
	times  bool
	flags  *pflag.FlagSet
}

func (f *logFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	choiceVar(fs, &f.level, "log-level", "info", []string{"debug", "info", "warn", "error", "off"}, "minimum level of the log")
	fs.StringVar(&f.file, "log-file", "", "`FILE` to append the log to, as JSON")
	switchVar(fs, &f.json, "log-jsonl", false, "log JSON to terminals too; off always logs text")
	choiceVar(fs, &f.colors, "log-colors", "auto", []string{"auto", "on", "off"}, "colors of the text log")
	switchVar(fs, &f.times, "log-timestamps", true, "timestamps in the log")
}

// open returns the log, and a function that closes its file.
func (f *logFlags) open(stderr io.Writer) (logs zerolog.Logger, done func(), err error) {
	c := telemetry.LogConfig{Times: f.times}
	if f.level == "off" {
		c.Level = zerolog.Disabled
	} else if c.Level, err = zerolog.ParseLevel(f.level); err != nil {
		return logs, nil, err
	}
	if f.flags.Changed("log-jsonl") {
		c.Format = map[bool]telemetry.Format{true: telemetry.Never, false: telemetry.Always}[f.json]
	}
	c.Colors = map[string]telemetry.Format{"auto": telemetry.Auto, "on": telemetry.Always, "off": telemetry.Never}[f.colors]
	done = func() {}
	if f.file != "" {
		file, err := os.OpenFile(f.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
		if err != nil {
			return logs, nil, usagef("--log-file: %w", err)
		}
		c.Copy, done = file, func() { file.Close() }
	}
	return telemetry.NewLog(stderr, c), done, nil
}
