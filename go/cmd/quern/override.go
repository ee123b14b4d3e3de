package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/launch"
)

// defineOverrides adds --override-kv, and the flags that llama.cpp has for some of the keys.
func defineOverrides(fs *pflag.FlagSet, o *launch.Overrides) {
	fs.Var((*overrideValue)(o), "override-kv", "override metadata: `KEY=TYPE:VALUE`, TYPE is int, float, bool or str; repeatable, or comma-separated")
	own := func(name, key, usage string, value func(string) (any, error)) {
		fs.Var(&ropeValue{o, key, value}, name, usage)
		fs.Lookup(name).Hidden = true
	}
	own("rope-scaling", ".rope.scaling.type", "how rotations are stretched: none, linear, yarn", func(s string) (any, error) {
		if !slices.Contains([]string{"none", "linear", "yarn"}, s) {
			return nil, errors.New("want none, linear or yarn")
		}
		return s, nil
	})
	own("rope-scale", ".rope.scaling.factor", "how much longer contexts become", positive(func(x float64) any { return x }))
	own("rope-freq-scale", ".rope.scaling.factor", "1 / --rope-scale", positive(func(x float64) any { return 1 / x }))
	own("rope-freq-base", ".rope.freq_base", "base of the rotations' frequencies", positive(func(x float64) any { return x }))
	own("yarn-orig-ctx", ".rope.scaling.original_context_length", "context of the training", positive(func(x float64) any { return int64(x) }))
	own("yarn-ext-factor", ".rope.scaling.yarn_ext_factor", "share of extrapolation, 0 to 1", notNegative)
	own("yarn-attn-factor", ".rope.scaling.attn_factor", "by which rotated pairs grow", notNegative)
	own("yarn-beta-slow", ".rope.scaling.yarn_beta_slow", "turns in the context of the training below which frequencies are divided", notNegative)
	own("yarn-beta-fast", ".rope.scaling.yarn_beta_fast", "turns above which they are not", notNegative)
}

// positive reads a number; 0 leaves the file's.
func positive(of func(float64) any) func(string) (any, error) {
	return func(s string) (any, error) {
		x, err := strconv.ParseFloat(s, 64)
		switch {
		case err != nil || !(x >= 0 && x <= 1e15):
			return nil, errors.New("want a number of 0, which is the model's own, or more")
		case x == 0:
			return nil, nil
		}
		return of(x), nil
	}
}

// notNegative reads a number; one below 0 leaves the file's.
func notNegative(s string) (any, error) {
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(x) || math.Abs(x) > 1e15:
		return nil, errors.New("want a number; below 0 is the model's own")
	case x < 0:
		return nil, nil
	}
	return x, nil
}

// A ropeValue is a flag for one key.
type ropeValue struct {
	to    *launch.Overrides
	key   string
	value func(string) (any, error)
}

func (v *ropeValue) Set(s string) error {
	x, err := v.value(s)
	if err == nil && x != nil {
		*v.to = append(*v.to, launch.Override{Key: v.key, Value: x})
	}
	return err
}

func (v *ropeValue) String() string { return "" }
func (v *ropeValue) Type() string   { return "X" }

// An overrideValue takes KEY=TYPE:VALUE, and more of them after commas.
type overrideValue launch.Overrides

// separator is a comma before another key.
var separator = regexp.MustCompile(`,([A-Za-z0-9_.-]+=(?:int|float|bool|str):)`)

func (v *overrideValue) Set(s string) error {
	for part := range strings.SplitSeq(separator.ReplaceAllString(s, "\x00$1"), "\x00") {
		key, rest, _ := strings.Cut(part, "=")
		typ, text, ok := strings.Cut(rest, ":")
		if key == "" || key[0] == '.' || !ok {
			return errors.New("want KEY=TYPE:VALUE, such as tokenizer.ggml.add_bos_token=bool:false")
		}
		value, err := typed(typ, text)
		if err != nil {
			return fmt.Errorf("%.80q: %w", key, err)
		}
		*v = append(*v, launch.Override{Key: key, Value: value})
	}
	return nil
}

func typed(typ, text string) (any, error) {
	switch typ {
	case "int":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("want a whole number")
		}
		return n, nil
	case "float":
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, errors.New("want a number")
		}
		return x, nil
	case "bool":
		if text != "true" && text != "false" {
			return nil, errors.New("want true or false")
		}
		return text == "true", nil
	case "str":
		return text, nil
	}
	return nil, fmt.Errorf("%.20q is no type, want int, float, bool or str", typ)
}

func (v *overrideValue) String() string { return "" }
func (v *overrideValue) Type() string   { return "KEY=TYPE:VALUE" }
