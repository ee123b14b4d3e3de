package main

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/internal/llamaflags"
)

// The flag values here validate when they are set, so that every command reports the
// same mistake in the same words: pflag adds the flag's name and the value to what Set
// returns.

// intVar defines a flag for an integer from least to most.
func intVar(fs *pflag.FlagSet, p *int, name, short string, value, least, most int, usage string) {
	*p = value
	fs.VarP(&intValue{p, least, most}, name, short, usage)
}

type intValue struct {
	p           *int
	least, most int
}

func (v *intValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < v.least || n > v.most {
		return fmt.Errorf("want a whole number from %d to %d", v.least, v.most)
	}
	*v.p = n
	return nil
}

func (v *intValue) String() string { return strconv.Itoa(*v.p) }
func (v *intValue) Type() string   { return "N" }

// floatVar defines a flag for a number from least to most, both finite: NaN and
// infinities are refused.
func floatVar[T float32 | float64](fs *pflag.FlagSet, p *T, name string, value, least, most T, usage string) {
	*p = value
	fs.Var(&floatValue[T]{p, least, most}, name, usage)
}

type floatValue[T float32 | float64] struct {
	p           *T
	least, most T
}

func (v *floatValue[T]) Set(s string) error {
	n, err := strconv.ParseFloat(s, v.bits())
	if f := T(n); err == nil && f >= v.least && f <= v.most {
		*v.p = f
		return nil
	}
	return fmt.Errorf("want a number from %g to %g", v.least, v.most)
}

func (v *floatValue[T]) bits() int      { return reflect.TypeFor[T]().Bits() }
func (v *floatValue[T]) String() string { return strconv.FormatFloat(float64(*v.p), 'g', -1, v.bits()) }
func (v *floatValue[T]) Type() string   { return "X" }

// switchVar defines a boolean flag, which --no-NAME also turns off.
func switchVar(fs *pflag.FlagSet, p *bool, name string, value bool, usage string) {
	*p = value
	fs.VarPF((*switchValue)(p), name, "", usage).NoOptDefVal = "true"
	llamaflags.Off(fs, name, "--no-"+name)
}

type switchValue bool

func (v *switchValue) Set(s string) error {
	on, err := llamaflags.ParseSwitch(s)
	*v = switchValue(on)
	return err
}

func (v *switchValue) String() string {
	if *v {
		return "on"
	}
	return "" // hidden from help
}

func (v *switchValue) Type() string { return "bool" }

// auto lets the flag called name, whose number is at p, also take one of words, which
// all mean its default.
func auto(fs *pflag.FlagSet, name string, p *int, words ...string) {
	f := fs.Lookup(name)
	f.Value = &autoValue{Value: f.Value, p: p, standard: *p, words: words}
}

type autoValue struct {
	pflag.Value
	p        *int
	standard int
	words    []string
	auto     bool // one of the words was given last
}

func (v *autoValue) Set(s string) error {
	if v.auto = slices.Contains(v.words, s); !v.auto {
		return v.Value.Set(s)
	}
	*v.p = v.standard
	return nil
}

// choiceVar defines an enum flag.
func choiceVar(fs *pflag.FlagSet, p *string, name, value string, choices []string, usage string) {
	*p = value
	fs.Var(&choiceValue{p, choices}, name, usage+": "+strings.Join(choices, ", "))
}

type choiceValue struct {
	p       *string
	choices []string
}

func (v *choiceValue) Set(s string) error {
	for _, c := range v.choices {
		if strings.EqualFold(s, c) {
			*v.p = c
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(v.choices, ", "))
}

// Choices is what shells offer.
func (v *choiceValue) Choices() []string { return v.choices }

func (v *choiceValue) String() string { return *v.p }
func (v *choiceValue) Type() string   { return "WORD" }

// durationVar defines a flag for a duration such as 150ms or 30s, not below 0.
func durationVar(fs *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	fs.Var((*durationValue)(p), name, usage)
}

// secondsVar is durationVar for times that neighbouring flags have in seconds: a number without a unit is seconds.
func secondsVar(fs *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	fs.Var((*secondsValue)(p), name, usage)
}

type secondsValue time.Duration

func (v *secondsValue) Set(s string) error {
	if n, err := strconv.ParseFloat(s, 64); err == nil && n >= 0 && n <= 1000*3600 {
		*v = secondsValue(n * float64(time.Second))
		return nil
	}
	if (*durationValue)(v).Set(s) != nil {
		return errors.New("want seconds such as 30, or a time such as 150ms or 2m")
	}
	return nil
}

func (v *secondsValue) String() string { return (*durationValue)(v).String() }
func (v *secondsValue) Type() string   { return "TIME" }

type durationValue time.Duration

func (v *durationValue) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 1000*time.Hour {
		return errors.New("want a time such as 150ms, 30s or 2m")
	}
	*v = durationValue(d)
	return nil
}

func (v *durationValue) String() string {
	if *v == 0 {
		return ""
	}
	return time.Duration(*v).String()
}

func (v *durationValue) Type() string { return "TIME" }

// bytesVar defines a flag for a size such as 800M or 4G; 0 means not given.
func bytesVar(fs *pflag.FlagSet, p *uint64, name, usage string) {
	fs.Var((*bytesValue)(p), name, usage)
}

type bytesValue uint64

func (v *bytesValue) Set(s string) error {
	n, err := parseBytes(s)
	*v = bytesValue(n)
	return err
}

func (v *bytesValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*v), 10)
}

func (v *bytesValue) Type() string { return "BYTES" }

// parseBytes parses a size: a number with a decimal unit (4G, 4GB) or a binary one
// (4Gi, 4GiB), or bytes.
func parseBytes(s string) (uint64, error) {
	bad := errors.New("want bytes above 0, such as 800M, 4G or 3.5GiB")
	text := strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B")
	base := 1000.0
	if t, ok := strings.CutSuffix(text, "I"); ok {
		text, base = t, 1024
	}
	unit := 1.0
	if n := len(text); n > 0 {
		if power := strings.IndexByte("KMGT", text[n-1]); power >= 0 {
			text, unit = text[:n-1], math.Pow(base, float64(power+1))
		} else if base == 1024 {
			return 0, bad
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	// 2^63 is above any machine's memory, and floats below it convert to uint64.
	if err != nil || !(v*unit >= 1 && v*unit < 1<<63) {
		return 0, bad
	}
	return uint64(v * unit), nil
}
