// Package llamaflags is what llama-server's users type: each of its flags, with
// its names and environment variable, and what becomes of it here. A flag does
// what it says, is taken with a warning, or is refused with what to do instead;
// none is unknown. Registration, warnings, refusals, variables and the tables of
// docs/migrating.md are all made from the one table.
package llamaflags

import (
	"slices"
	"strings"
)

// A Kind is what a flag takes.
type Kind int

const (
	Text   Kind = iota // one value
	Int                // one whole number
	Num                // one number
	Pair               // two values
	Maybe              // one value, or none before the next flag: it is on
	Bare               // none
	Switch             // none, and it has names that turn it off
)

// A Group says which commands a flag is for.
type Group int

const (
	Common      Group = iota // every command that runs a model
	Sampling                 // the same
	Speculation              // the same
	Server                   // quern serve
)

// A Row is a flag of llama-server and what becomes of it. One of Flag, Becomes,
// Always, Ignored and Refused says what; Becomes and Neutral may stand beside
// one of the last two, for some of the values.
type Row struct {
	Names string // as they are typed, with spaces between; the last is what messages say
	No    string // names that turn a switch off
	Kind  Kind
	Env   string
	Group Group

	Flag    string            // our flag that does it
	Becomes map[string]string // by value, or "*" for all others: the FLAG=VALUE of ours that does it
	Always  string            // it is so anyway, and why
	Neutral string            // values that ask for nothing, with spaces between; <0 and <=0 are ranges
	Ignored string            // it decides nothing, and why or what does
	Refused string            // why it cannot be done, and what to do instead
	Note    string            // for readers: what is different about what it does
}

// Rows returns the whole table.
func Rows() []Row { return slices.Concat(common, sampling, speculation, server) }

func (r *Row) names() []string { return strings.Fields(r.Names) }
func (r *Row) off() []string   { return strings.Fields(r.No) }

// name is what messages call the flag: its last long name, or that of ours.
func (r *Row) name() string {
	if r.Flag != "" {
		return "--" + r.Flag
	}
	all := r.names()
	for _, n := range slices.Backward(all) {
		if strings.HasPrefix(n, "--") {
			return n
		}
	}
	return all[len(all)-1]
}

// canonical is the name under which pflag knows the flag.
func (r *Row) canonical() string { return strings.TrimLeft(r.name(), "-") }
