package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/internal/llamaflags"
)

// maxPresets bounds the size of a file of presets.
const maxPresets = 1 << 20

// A setting is a line of a file of presets.
type setting struct {
	key, value string
	line       int
}

// A preset is a section of a file of presets: a model, and flags for it.
type preset struct {
	name     string
	line     int
	settings []setting
}

// readPresets reads a file of presets in llama-server's form: sections with names of models, [*] for all of them, and lines
// KEY = VALUE, whose keys are names of flags without their dashes, or llama-server's variables for them.
func readPresets(path string) (common []setting, all []preset, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, usagef("--models-preset: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPresets+1))
	switch {
	case err != nil:
		return nil, nil, usagef("--models-preset: %w", err)
	case len(text) > maxPresets:
		return nil, nil, usagef("--models-preset %s: it is larger than %d KiB", path, maxPresets>>10)
	}
	if common, all, err = parsePresets(string(text)); err != nil {
		err = usagef("--models-preset %s, %w", path, err)
	}
	return common, all, err
}

func parsePresets(text string) (common []setting, all []preset, err error) {
	section := ""
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line, n := strings.TrimSpace(line), i+1
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %w", n, fmt.Errorf(format, args...))
		}
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			if name, ok = strings.CutSuffix(name, "]"); !ok || strings.TrimSpace(name) == "" || strings.ContainsFunc(name, unicode.IsControl) {
				return nil, nil, fail("%q, want a section such as [NAME]", line)
			}
			section = strings.TrimSpace(name)
			if j := slices.IndexFunc(all, func(p preset) bool { return p.name == section }); j >= 0 {
				return nil, nil, fail("the section [%s] is there already, at line %d", section, all[j].line)
			}
			if section != "*" {
				all = append(all, preset{name: section, line: n})
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		s := setting{strings.TrimSpace(key), strings.TrimSpace(value), n}
		switch {
		case !ok || s.key == "" || strings.ContainsFunc(s.key, unicode.IsControl):
			return nil, nil, fail("%q, want KEY = VALUE", line)
		case section == "" && s.key == "version":
			if s.value != "1" {
				return nil, nil, fail("version %q, want 1", s.value)
			}
		case section == "" || section == "*":
			common = append(common, s)
		default:
			p := &all[len(all)-1]
			p.settings = append(p.settings, s)
		}
	}
	return common, all, nil
}

// presetOnly are the keys that are not flags.
var presetOnly = []string{"load-on-startup", "stop-timeout", "dedup-cache-models"}

// A configured is the flags of one model.
type configured struct {
	serveFlags
	startup bool     // it is loaded at the start
	given   []string // what its section says, as flags
}

// configure returns the flags of a model with these settings, under those of the command line. warn is told of settings that
// have no effect.
func (f *serveFlags) configure(warn func(string), settings ...setting) (*configured, error) {
	c := &configured{}
	c.listed = true
	fs := pflag.NewFlagSet("preset", pflag.ContinueOnError)
	fs.SetNormalizeFunc(dashes)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	c.define(fs)
	c.model.files = f.model.files
	for _, s := range settings {
		if err := c.apply(fs, s, warn); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", s.line, s.key, err)
		}
	}
	if err := llamaflags.Refused(fs); err != nil {
		return nil, err
	}
	// The command line and the environment come before the file.
	var failed error
	f.model.flags.Visit(func(from *pflag.Flag) {
		to := fs.Lookup(from.Name)
		if to == nil || failed != nil || !ofModel(from.Name) {
			return
		}
		if list, ok := from.Value.(pflag.SliceValue); ok {
			failed = to.Value.(pflag.SliceValue).Replace(list.GetSlice())
			to.Changed = true
			return
		}
		failed = fs.Set(from.Name, from.Value.String())
	})
	if failed == nil {
		failed = c.check()
	}
	return c, failed
}

// apply sets the flag that a setting names.
func (c *configured) apply(fs *pflag.FlagSet, s setting, warn func(string)) error {
	if key := strings.TrimLeft(strings.ReplaceAll(s.key, "_", "-"), "-"); slices.Contains(presetOnly, key) {
		if key == "load-on-startup" {
			on, err := llamaflags.ParseSwitch(s.value)
			c.startup = on
			return err
		}
		return nil
	}
	f, off := llamaflags.Named(fs, s.key)
	if f == nil {
		return errors.New("no such flag; \"quern serve --help\" lists them")
	}
	if !ofModel(f.Name) && !slices.Contains(presetNames, f.Name) {
		warn(fmt.Sprintf("line %d: %s is for the whole server, and left out", s.line, s.key))
		return nil
	}
	value := s.value
	if off { // as no-mmap = true
		on, err := llamaflags.ParseSwitch(value)
		if err != nil {
			return err
		}
		value = map[bool]string{true: "off", false: "on"}[on]
	}
	if err := fs.Set(f.Name, value); err != nil {
		return err
	}
	c.given = append(c.given, "--"+f.Name, value)
	return nil
}

// presetNames are the flags that say what a model is, and are not taken over from the command line.
var presetNames = []string{"model", "model-draft", "hf-repo", "hf-file", "hf-repo-draft", "alias", "tags", "lora", "lora-scaled", "lora-init-without-apply"}

// whole are the flags of the whole server.
var whole = strings.Fields(`
	model model-draft alias tags lora lora-scaled lora-init-without-apply threads cpu-mask cpu-range cpu-strict memory help version
	host port api-prefix reuse-port drain drain-delay timeout sse-ping-interval response-memory response-time slot-save-path batch-dir batch-space
	lora-dir api-key api-key-file require-key cors-origins allowed-hosts ssl-cert-file ssl-key-file metrics vllm-metrics slots ui path
	mcp mcp-timeout max-body trace-endpoint log-level log-file log-jsonl log-colors log-timestamps
	cache-disk cache-disk-size cache-per-key
	models-dir models-preset models-max models-autoload models-pull keep-alive sleep-idle-seconds
	model-cache offline hf-token yes hf-repo hf-file hf-repo-draft model-url docker-repo`)

// ofModel reports whether a flag is one of each model, and not of the whole server.
func ofModel(flag string) bool { return !slices.Contains(whole, flag) }
