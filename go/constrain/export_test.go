package constrain

import (
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// CompileAnew compiles a grammar even if it is cached.
func CompileAnew(tb testing.TB, v *Vocabulary, g *grammar.Grammar) *Automaton {
	tb.Helper()
	a, err := newAutomaton(v, "", g)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// Made returns how many states an automaton has made.
func (a *Automaton) Made() uint64 { return a.made }

// Bytes returns what an automaton counts, and how many slices it has.
func (a *Automaton) Bytes() (bytes, slices int) { return a.bytes, len(a.slices) }
