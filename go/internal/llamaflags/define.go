package llamaflags

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Annotations of a flag, for Rewrite and Environment.
const (
	namesKey = "names"     // aliases, with their dashes
	offKey   = "off-names" // names that turn it off
	envKey   = "variables" // environment variables
	kindKey  = "kind"      // takes two arguments, or an optional one
)

// Define adds llama-server's flags to those of a command, which are defined already:
// existing flags get aliases and variables, the others are added as hidden flags.
func Define(fs *pflag.FlagSet, groups ...Group) {
	for _, r := range Rows() {
		if !slices.ContainsFunc(groups, func(g Group) bool { return r.group()&g != 0 }) {
			continue
		}
		if f := fs.Lookup(r.canonical()); f != nil {
			annotate(f, &r)
			continue
		}
		if r.Flag == "help" {
			continue // cobra adds it, and Rewrite knows its names
		}
		if !r.possible(fs) {
			r = r.elsewhere()
		}
		v := &value{row: r, fs: fs}
		f := fs.VarPF(v, r.canonical(), "", "see docs/migrating.md")
		f.Hidden = true
		if r.Kind == Bare || r.Kind == Switch {
			f.NoOptDefVal = "on"
		}
		annotate(f, &r)
	}
}

// possible reports whether fs has all flags that the row maps to.
func (r *Row) possible(fs *pflag.FlagSet) bool {
	for name := range r.sets() {
		if fs.Lookup(name) == nil {
			return false
		}
	}
	return r.Flag == ""
}

// sets are the flags that the row maps to.
func (r *Row) sets() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, all := range r.Becomes {
			for to := range strings.FieldsSeq(all) {
				if name, _, _ := strings.Cut(to, "="); !yield(name) {
					return
				}
			}
		}
	}
}

// elsewhere is the row in a command that does not support the flag.
func (r Row) elsewhere() Row {
	why := "this command does not do that"
	switch {
	case r.Of != "":
		why = strconv.Quote(r.Of) + " does that, and this command does not"
	case r.Group&Server != 0 && !r.Needed:
		why = "only quern serve does that"
	}
	if r.Flag, r.Becomes = "", nil; r.Group&Sampling != 0 && r.Group&Tools == 0 || r.Needed || r.Of != "" {
		r.Refused = why + "; leave the flag out"
		return r
	}
	r.Ignored = why
	return r
}

func annotate(f *pflag.Flag, r *Row) {
	note := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[key] = append(f.Annotations[key], values...)
	}
	for _, n := range r.names() {
		if n == "--"+f.Name || len(n) == 2 && f.Shorthand != "" || slices.Contains(f.Annotations[namesKey], n) {
			continue // known already
		}
		note(namesKey, []string{n})
		if n[1] != '-' && !f.Hidden {
			f.Usage += " (" + n + ")"
		}
	}
	note(offKey, r.off())
	note(envKey, strings.Fields(r.Env))
	switch r.Kind {
	case Pair:
		note(kindKey, []string{"pair"})
	case Maybe:
		note(kindKey, []string{"maybe"})
	}
}

// Alias adds an alias such as -sys for the flag called name. pflag itself would parse
// that as -s -y -s.
func Alias(fs *pflag.FlagSet, name, as string) {
	annotate(fs.Lookup(name), &Row{Names: as})
}

// Off adds a name that turns the switch called name off.
func Off(fs *pflag.FlagSet, name, as string) { annotate(fs.Lookup(name), &Row{No: as}) }

// A value is the value of a flag that is defined by the table alone.
type value struct {
	row   Row
	fs    *pflag.FlagSet
	given string
	from  string // the environment variable that set it, empty if an argument did
	typed string // the name that the argument had; empty: the flag's own
}

func (v *value) String() string { return v.given }

func (v *value) Type() string {
	if v.row.Kind == Bare || v.row.Kind == Switch {
		return "bool"
	}
	return "string"
}

// Set accepts what llama-server accepts. Refusals are left to Refused, which has its
// own error messages.
func (v *value) Set(s string) error {
	s, err := v.row.parse(s)
	if err != nil {
		return err
	}
	v.given = s
	to, ok := v.row.Becomes[s]
	if !ok {
		to, ok = v.row.Becomes["*"]
	}
	for one := range strings.FieldsSeq(to) {
		name, as, _ := strings.Cut(one, "=")
		if err := v.fs.Set(name, as); err != nil {
			return err
		}
	}
	if ok {
		return nil
	}
	if v.row.Becomes != nil && v.row.Refused == "" && v.row.Ignored == "" && !v.row.neutral(s) && v.row.Kind != Bare {
		return fmt.Errorf("want one of %s", strings.Join(v.row.wants(), ", "))
	}
	return nil
}

// wants lists the meaningful values.
func (r *Row) wants() []string {
	var all []string
	for s := range r.Becomes {
		all = append(all, s)
	}
	slices.Sort(all)
	return append(all, strings.Fields(r.Neutral)...)
}

// parse validates s by the kind of the flag, and normalizes switches.
func (r *Row) parse(s string) (string, error) {
	switch r.Kind {
	case Bare, Switch:
		on, err := ParseSwitch(s)
		if err != nil {
			return "", err
		}
		return map[bool]string{true: "on", false: "off"}[on], nil
	case Int:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return "", errors.New("want a whole number")
		}
		return strconv.FormatInt(n, 10), nil
	case Num:
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return "", errors.New("want a number")
		}
	}
	return s, nil
}

// ParseSwitch parses a boolean, in llama-server's words and Go's.
func ParseSwitch(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "on", "true", "1", "enabled", "t":
		return true, nil
	case "off", "false", "0", "disabled", "f":
		return false, nil
	}
	return false, errors.New("want on or off")
}

// neutral reports whether s has no effect.
func (r *Row) neutral(s string) bool {
	n, err := strconv.ParseFloat(s, 64)
	number := err == nil
	for _, word := range strings.Fields(r.Neutral) {
		w, err := strconv.ParseFloat(word, 64)
		switch {
		case strings.EqualFold(word, s), number && err == nil && n == w,
			number && word == "<0" && n < 0, number && word == "<=0" && n <= 0:
			return true
		}
	}
	return r.Kind == Bare && s == "off"
}

// settled reports whether the value needs no warning.
func (v *value) settled() bool {
	if v.given == "" || v.row.neutral(v.given) || v.row.Always != "" {
		return true
	}
	_, one := v.row.Becomes[v.given]
	_, any := v.row.Becomes["*"]
	return one || any
}

// idle returns why the flag has no effect; empty: it has one, or needs none.
func (v *value) idle() string {
	if v.settled() {
		return ""
	}
	return v.row.Ignored
}

// From records the environment variable that set the value.
func (v *value) From(variable string) { v.from = variable }

// shown is the flag as it was given. The value is included only where it matters: it
// may be long, or secret.
func (v *value) shown() string {
	name, given := v.row.name(), ""
	switch off := v.row.off(); {
	case v.row.Kind == Switch && v.given == "off":
		name = off[len(off)-1]
	case v.row.Kind != Bare && v.row.Kind != Switch && (v.row.Neutral != "" || v.row.Becomes != nil):
		given = " " + v.given
	}
	name = cmp.Or(v.typed, name) + given
	if v.from != "" {
		return "environment variable " + v.from + " (" + name + ")"
	}
	return name
}

// A Warner is a flag's value that may have a warning once it is set.
type Warner interface{ Warning() string }

// Warnings returns lines for the flags of fs that were given and may not do what their users expect: one for all that
// have no effect for the same reason, and one for each other.
func Warnings(fs *pflag.FlagSet) []string {
	var lines, reasons []string
	idle := map[string][]string{} // names by reason
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		switch v := f.Value.(type) {
		case *value:
			if why := v.idle(); why != "" {
				if idle[why] == nil {
					reasons = append(reasons, why)
				}
				idle[why] = append(idle[why], v.shown())
			}
		case Warner:
			if line := v.Warning(); line != "" {
				lines = append(lines, line)
			}
		}
	})
	for _, why := range reasons {
		verb := " has"
		if len(idle[why]) > 1 {
			verb = " have"
		}
		slices.Sort(idle[why])
		lines = append(lines, strings.Join(idle[why], ", ")+verb+" no effect: "+why)
	}
	return lines
}

// Refused returns an error for the first given flag of fs that is not supported; it
// says what to do instead.
func Refused(fs *pflag.FlagSet) error {
	var err error
	fs.VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(*value); ok && err == nil && !v.settled() && v.row.Refused != "" {
			err = fmt.Errorf("%s: %s", v.shown(), v.row.Refused)
		}
	})
	return err
}
