package llamaflags

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

var update = flag.Bool("update", false, "write the tables of docs/migrating.md anew")

var groups = map[string]Group{"common": Common, "sampling": Sampling, "speculation": Speculation, "server": Server, "cli": CLI, "bench": Bench, "tools": Tools}

// The tables of docs/migrating.md are those of the table.
func TestDocument(t *testing.T) {
	const path = "../../../docs/migrating.md"
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	tables := regexp.MustCompile(`(?s)(<!-- flags (\w+) -->\n).*?(<!-- end -->)`)
	now := tables.ReplaceAllStringFunc(string(was), func(s string) string {
		m := tables.FindStringSubmatch(s)
		g, ok := groups[m[2]]
		if !ok {
			t.Errorf("there is no group %s", m[2])
			return s
		}
		seen++
		return m[1] + Markdown(g) + m[3]
	})
	if seen != len(groups) {
		t.Errorf("the document has %d tables, want %d", seen, len(groups))
	}
	if *update {
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if now != string(was) {
		t.Error("docs/migrating.md differs from the table; scripts/go.sh test ./go/internal/llamaflags -update writes it")
	}
}

// No flag of llama-server is unknown, and each has its kind and its variable.
func TestLlamaServer(t *testing.T) {
	text, err := os.ReadFile(testdata.Path(t, "../compat/flags.json"))
	if err != nil {
		t.Fatal(err)
	}
	var theirs []struct {
		Names, Negative []string
		Kind, Env       string
		Values          []string
	}
	if err := json.Unmarshal(text, &theirs); err != nil {
		t.Fatal(err)
	}
	byName := map[string]*Row{}
	for _, r := range Rows() {
		if r.Group == Bench { // some of its names take values there
			continue
		}
		for _, name := range slices.Concat(r.names(), r.off()) {
			byName[name] = &r
		}
	}
	kinds := map[string][]Kind{"none": {Bare, Switch}, "switch": {Switch}, "int": {Int}, "string": {Text, Num, Int, Maybe}, "two": {Pair, Text}}
	for _, f := range theirs {
		variable := f.Env == "" || f.Env == "HF_TOKEN" // which is other programs' too
		for _, name := range slices.Concat(f.Names, f.Negative) {
			r := byName[name]
			if r == nil {
				t.Errorf("%s is unknown", name)
				continue
			}
			if !slices.Contains(kinds[f.Kind], r.Kind) {
				t.Errorf("%s takes what kind %d does, want %s", name, r.Kind, f.Kind)
			}
			if slices.Contains(f.Negative, name) != slices.Contains(r.off(), name) {
				t.Errorf("%s turns its flag on and not off, or the other way round", name)
			}
			variable = variable || slices.Contains(strings.Fields(r.Env), f.Env)
			for _, v := range f.Values {
				if _, err := r.parse(v); err != nil {
					t.Errorf("%s %s: %v", name, v, err)
				}
			}
		}
		if !variable {
			t.Errorf("%s is not read for %s", f.Env, f.Names)
		}
	}
	if len(theirs) < 200 {
		t.Errorf("only %d flags are there to compare with", len(theirs))
	}
}
