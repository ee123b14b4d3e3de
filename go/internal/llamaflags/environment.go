package llamaflags

import (
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
)

// Environment returns the environment variable that sets a flag, by llama-server's name
// for it, and its value. Empty counts as not set. The command line takes precedence,
// including other flags that set the same.
func Environment(f *pflag.Flag) (variable, says string) {
	v, ours := f.Value.(*value)
	if ours && v.decided() {
		return "", ""
	}
	variables := f.Annotations[envKey]
	if variables == nil {
		variables = done()[f.Name]
	}
	for _, name := range variables {
		if s := os.Getenv(name); s != "" {
			return name, s
		}
		// LLAMA_ARG_NO_ with any value turns a switch off.
		no := strings.Replace(name, "LLAMA_ARG_", "LLAMA_ARG_NO_", 1)
		if f.Annotations[offKey] != nil && no != name && os.Getenv(no) != "" {
			return no, "off"
		}
	}
	return "", ""
}

// decided reports whether a flag that this one would set was given.
func (v *value) decided() bool {
	for name := range v.row.sets() {
		if v.fs.Changed(name) {
			return true
		}
	}
	return false
}

// done maps Quern's flags to the variables of the llama-server flags that they
// implement, for the commands that have only Quern's.
var done = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, r := range Rows() {
		if r.Flag != "" && r.Env != "" {
			all[r.Flag] = slices.Concat(all[r.Flag], strings.Fields(r.Env))
		}
	}
	return all
})
