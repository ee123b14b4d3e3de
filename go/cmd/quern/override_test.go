package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/launch"
)

func TestOverrideFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string // the overrides, or part of the error
	}{
		{"--override-kv a.b=int:-3", "[{a.b -3}]"},
		{"--override-kv a=str:x,y=z,b=bool:true,c=float:0.5 --override-kv d=str:", "[{a x,y=z} {b true} {c 0.5} {d }]"},
		{"--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768", "[{.rope.scaling.type yarn} {.rope.scaling.factor 4} {.rope.scaling.original_context_length 32768}]"},
		{"--rope-freq-scale 0.25 --rope-freq-base 0 --yarn-ext-factor -1 --yarn-beta-fast 32", "[{.rope.scaling.factor 4} {.rope.scaling.yarn_beta_fast 32}]"},
		{"--override-kv a", "want KEY=TYPE:VALUE"},
		{"--override-kv =int:1", "want KEY=TYPE:VALUE"},
		{"--override-kv .rope=int:1", "want KEY=TYPE:VALUE"},
		{"--override-kv a=int:1.5", `"a": want a whole number`},
		{"--override-kv a=bool:yes", `"a": want true or false`},
		{"--override-kv a=float:nan", `"a": want a number`},
		{"--override-kv a=u8:1", `"u8" is no type`},
		{"--rope-scale -1", "want a number of 0"},
		{"--yarn-beta-slow x", "want a number"},
		{"--rope-scaling linear,yarn", "want none, linear or yarn"},
	} {
		var o launch.Overrides
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		defineOverrides(fs, &o)
		got := ""
		if err := fs.Parse(strings.Fields(tt.args)); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(o)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.args, got, tt.want)
		}
	}
}

// A model runs with other metadata than its file's.
func TestRunWithOtherMetadata(t *testing.T) {
	text := func(args ...string) string {
		return succeed(t, append([]string{"run", "-m", demo.Name, "-p", "Once upon a time", "-n", "24", "--temp", "0"}, args...)...)
	}
	plain := text()
	if got := text("--rope-freq-base", "10000", "--rope-freq-scale", "1"); got != plain {
		t.Errorf("with what the file has: %q, want %q", got, plain)
	}
	stretched := text("--rope-scaling", "linear", "--rope-scale", "8")
	if stretched == plain {
		t.Errorf("rotations stretched 8 times change nothing: %q", plain)
	}
	if got := text("--override-kv", "llama.rope.scaling.type=str:linear,llama.rope.scaling.factor=float:8"); got != stretched {
		t.Errorf("by the keys: %q, want %q", got, stretched)
	}
	ids := succeed(t, "inspect", "-m", demo.Name, "--override-kv", "general.name=str:ours")
	if !strings.Contains(ids, "ours") {
		t.Errorf("the name is not ours: %s", ids)
	}
	quern(t, "run", "-m", demo.Name, "-p", "x", "--override-kv", "llama.rope.freq_base=str:x").refused(t, 1, "llama.rope.freq_base")
	quern(t, "run", "-m", demo.Name, "-p", "x", "--override-kv", "split.count=int:2").refused(t, 1, "split.count")
}
