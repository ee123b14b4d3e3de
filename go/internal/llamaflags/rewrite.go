package llamaflags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A name is the meaning of an argument that names a flag.
type name struct {
	flag  string
	off   bool
	pair  bool
	maybe bool
}

// further returns the names that pflag does not know, with their dashes.
func further(fs *pflag.FlagSet) map[string]name {
	names := map[string]name{"--usage": {flag: "help"}} // added by cobra
	fs.VisitAll(func(f *pflag.Flag) {
		kind := f.Annotations[kindKey]
		to := name{flag: f.Name, pair: slices.Contains(kind, "pair"), maybe: slices.Contains(kind, "maybe")}
		if kind != nil {
			names["--"+f.Name] = to
		}
		for _, n := range f.Annotations[namesKey] {
			names[n] = to
		}
		for _, n := range f.Annotations[offKey] {
			names[n] = name{flag: f.Name, off: true}
		}
	})
	return names
}

// Rewrite converts args for pflag: multi-letter short names, and names that turn a flag
// off, are replaced by the flag's own name. Values are not changed. A short name with
// its value in the same argument is refused: pflag would parse it as another flag.
func Rewrite(fs *pflag.FlagSet, args []string) ([]string, error) {
	names := further(fs)
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...), nil
		}
		typed, given, assigned := strings.Cut(arg, "=")
		to, ok := names[dashed(typed)]
		if !ok {
			if err := glued(fs, names, typed); err != nil {
				return nil, err
			}
			out = append(out, arg)
		} else {
			switch {
			case to.off && assigned:
				on, err := ParseSwitch(given)
				if err != nil {
					return nil, fmt.Errorf("%s takes no value; leave %q out", typed, given)
				}
				given = map[bool]string{true: "off", false: "on"}[on]
			case to.off:
				given, assigned = "off", true
			case to.pair && !assigned && i+2 < len(args) && !strings.HasPrefix(args[i+2], "-"):
				given, assigned = args[i+1]+" "+args[i+2], true
				i += 2
			case to.maybe && !assigned && (i+1 == len(args) || strings.HasPrefix(args[i+1], "-")):
				given, assigned = "on", true
			}
			if f := fs.Lookup(to.flag); f != nil { // cobra adds help later
				if v, ok := f.Value.(*value); ok {
					v.typed = typed
				}
			}
			arg = "--" + to.flag
			if assigned {
				arg += "=" + given
			}
			out = append(out, arg)
		}
		if takesNext(fs, arg) && i+1 < len(args) {
			i++
			out = append(out, args[i])
		}
	}
	return out, nil
}

// Named returns the flag that a key in a file means: one of its names, with or without dashes, or llama-server's variable for
// it; nil for none. off is true where the name turns it off.
func Named(fs *pflag.FlagSet, key string) (f *pflag.Flag, off bool) {
	bare := strings.TrimLeft(key, "-")
	names := further(fs)
	for _, typed := range []string{dashed("--" + bare), "-" + bare} {
		if to, ok := names[typed]; ok {
			return fs.Lookup(to.flag), to.off
		}
	}
	if f = fs.Lookup(bare); f != nil {
		return f, false
	}
	if len(bare) == 1 {
		return fs.ShorthandLookup(bare), false
	}
	fs.VisitAll(func(o *pflag.Flag) {
		for _, name := range o.Annotations[envKey] {
			if key == name {
				f = o
			}
			if no := strings.Replace(name, "LLAMA_ARG_", "LLAMA_ARG_NO_", 1); key == no && no != name {
				f, off = o, true
			}
		}
	})
	return f, off
}

// dashed normalizes --top_k to --top-k, as llama.cpp does.
func dashed(typed string) string {
	if strings.HasPrefix(typed, "--") {
		return strings.ReplaceAll(typed, "_", "-")
	}
	return typed
}

// glued returns an error for a multi-letter short name with its value in the same
// argument, such as -ngl99 for -ngl 99, and for a long name with one dash, such as -temp,
// which pflag would parse as -t emp.
func glued(fs *pflag.FlagSet, names map[string]name, arg string) error {
	if len(arg) < 3 || arg[0] != '-' || arg[1] == '-' {
		return nil
	}
	long := dashed("-" + arg)
	if _, ok := names[long]; ok || fs.Lookup(long[2:]) != nil {
		return fmt.Errorf("unknown flag %q, want %s", arg, long)
	}
	for n := len(arg) - 1; n > 2; n-- {
		to, ok := names[arg[:n]]
		switch {
		case !ok:
			continue
		case to.off || fs.Lookup(to.flag).NoOptDefVal != "":
			return fmt.Errorf("unknown flag %q: %s takes no value", arg, arg[:n])
		}
		return fmt.Errorf("unknown flag %q, want %s %s", arg, arg[:n], arg[n:])
	}
	return nil
}

// takesNext reports whether arg is a flag whose value is the argument after it.
func takesNext(fs *pflag.FlagSet, arg string) bool {
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		f := fs.Lookup(name)
		return f != nil && f.NoOptDefVal == "" // a switch has a value when it is given none
	}
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	for i, letter := range []byte(arg[1:]) { // -ab is -a -b, and -n5 is -n 5
		f := fs.ShorthandLookup(string(letter))
		if f == nil {
			return false
		}
		if f.NoOptDefVal == "" {
			return i == len(arg)-2
		}
	}
	return false
}
