// Package llamaflags handles the flags of llama-server and the other programs of llama.cpp: their names, environment variables,
// and effects in Quern. A flag is implemented, accepted with a warning, or refused with
// an alternative; none is unknown. Registration, warnings, refusals, variables and the
// tables of docs/migrating.md are all generated from one table.
package llamaflags

import (
	"cmp"
	"slices"
	"strings"
)

// A Kind is the arguments that a flag takes.
type Kind int

const (
	Text   Kind = iota // one value
	Int                // one whole number
	Num                // one number
	Pair               // two values
	Maybe              // one optional value: on without one
	Bare               // none
	Switch             // none, and it has names that turn it off
)

// A Group is the set of commands that a flag applies to; those of several are added up.
type Group int

const (
	Common      Group = 1 << iota // every command that runs a model
	Sampling                      // the same
	Speculation                   // the same
	Server                        // quern serve
	CLI                           // quern run and quern chat
	Bench                         // quern bench
	Tools                         // quern perplexity, imatrix and embed
)

// A Row is a flag of llama-server and its effect here. One of Flag, Becomes, Always,
// Ignored and Refused describes it; Becomes and Neutral may be combined with one of the
// last two, for some of the values.
type Row struct {
	Names string // separated by spaces; messages use the last
	No    string // names that turn a switch off
	Kind  Kind
	Env   string
	Group Group

	Flag    string            // Quern's flag that implements it
	Becomes map[string]string // by value, or "*" for all others: the FLAG=VALUE of Quern that implements it, or several, separated by spaces
	Always  string            // why it is always in effect
	Neutral string            // values without effect, separated by spaces; <0 and <=0 are ranges
	Ignored string            // why it has no effect, or what to use
	Refused string            // why it is not supported, and what to do instead
	Needed  bool              // a command without the flag refuses it, since its output would be another
	Of      string            // the command that does it, beside quern serve if that has it; others refuse it
	Note    string            // for the documentation: differences in its effect
}

// Rows returns the whole table.
func Rows() []Row { return slices.Concat(common, sampling, speculation, server, cli, bench, tools) }

// group returns the groups of the row; most are common.
func (r *Row) group() Group { return cmp.Or(r.Group, Common) }

// first returns the group in which the row is documented.
func (r *Row) first() Group { return r.group() & -r.group() }

func (r *Row) names() []string { return strings.Fields(r.Names) }
func (r *Row) off() []string   { return strings.Fields(r.No) }

// name is the flag's name in messages: its last long name, or Quern's.
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

// canonical is the flag's name in pflag.
func (r *Row) canonical() string { return strings.TrimLeft(r.name(), "-") }
