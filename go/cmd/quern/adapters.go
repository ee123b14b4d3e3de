package main

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
)

// adapterFlags are the flags for LoRA adapters.
type adapterFlags struct {
	plain, scaled []string
	idle          bool // they are not applied to requests that do not say
}

func (f *adapterFlags) define(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.plain, "lora", nil, "GGUF `FILE` of a LoRA adapter for the model, or NAME=FILE; comma-separated; repeatable")
	fs.StringSliceVar(&f.scaled, "lora-scaled", nil, "the same, as `FILE:SCALE`")
}

// list returns the adapters that the flags name.
func (f *adapterFlags) list() ([]launch.Adapter, error) {
	var all []launch.Adapter
	add := func(flag, s string, scale float32) error {
		name, path, named := strings.Cut(s, "=")
		if _, err := os.Stat(s); err == nil || !named || strings.ContainsRune(name, '/') {
			name, path = "", s
		}
		if path == "" || named && path != s && name == "" {
			return usagef("--%s %q: want FILE or NAME=FILE", flag, s)
		}
		name = cmp.Or(name, strings.TrimSuffix(filepath.Base(path), ".gguf"))
		for _, other := range all {
			if other.Name == name {
				return usagef("--%s: two adapters are called %q; name them with NAME=FILE", flag, name)
			}
		}
		all = append(all, launch.Adapter{Name: name, Path: path, Scale: scale})
		return nil
	}
	for _, s := range f.plain {
		if err := add("lora", s, 1); err != nil {
			return nil, err
		}
	}
	for _, s := range f.scaled {
		i := strings.LastIndexByte(s, ':')
		if i < 0 {
			return nil, usagef("--lora-scaled %q: want FILE:SCALE", s)
		}
		scale, err := strconv.ParseFloat(s[i+1:], 32)
		if err != nil || math.IsNaN(scale) || math.IsInf(scale, 0) {
			return nil, usagef("--lora-scaled %q: %q is no scale, want a number such as 0.5", s, s[i+1:])
		}
		if err := add("lora-scaled", s[:i], float32(scale)); err != nil {
			return nil, err
		}
	}
	applied := 0
	for _, a := range all {
		if a.Scale != 0 && !f.idle {
			applied++
		}
	}
	if applied > engine.MaxApplied {
		return nil, usagef("--lora: %d adapters at once, want at most %d; a server may have more with --lora-init-without-apply", applied, engine.MaxApplied)
	}
	return all, nil
}
