package family

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/model/arch"
)

// Every architecture that runs is that of a family, or one that Change makes of another.
func TestEveryArchitectureIsConverted(t *testing.T) {
	made := map[string]bool{}
	for _, f := range families {
		made[f.Arch] = true
	}
	for _, f := range []func(*hf.Config, *lang.Family) *lang.Family{withTasks, withExperts, nemotronKind} {
		c := new(hf.Config).Part(map[string]any{"lora_adaptations": []any{}, "moe_every_n_layers": 2.0,
			"hybrid_override_pattern": "ME", "num_hidden_layers": 2.0})
		made[f(c, &lang.Family{}).Arch] = true
	}
	for _, name := range arch.Names() {
		if !made[name] {
			t.Errorf("no family is %s", name)
		}
		delete(made, name)
	}
	for name := range made {
		t.Errorf("%s is no architecture that runs", name)
	}
}

// A family is in the file, and under the name, that its architecture has in go/model/arch. A second family of an
// architecture has a name of its own.
func TestFamiliesAreInTheFilesOfTheirArchitectures(t *testing.T) {
	type place struct{ file, name string }
	places := map[string]place{}
	for _, l := range literals(t, "../../model/arch/*.go", "Arch", "Name") {
		places[l.value] = place{l.file, l.name}
	}
	names := map[string]bool{}
	for _, l := range literals(t, "*.go", "Family", "Arch") {
		want, ok := places[l.value]
		if !ok {
			t.Errorf("%s: no file of go/model/arch has an architecture %q", l.file, l.value)
			continue
		}
		if l.file != want.file {
			t.Errorf("the family %s of %s is in %s, want %s", l.name, l.value, l.file, want.file)
		}
		names[l.name] = true
	}
	for name, at := range places {
		made := map[string]bool{"jina-bert-v3": true, "nomic-bert-moe": true, "nemotron_h_moe": true} // by settings of another family
		if !names[at.name] && !made[name] {
			t.Errorf("%s has no %s, the family of %s", at.file, at.name, name)
		}
	}
	if len(names) != len(families) {
		t.Errorf("%d families are declared and %d are listed", len(names), len(families))
	}
}

// Two families with a name in common would be told apart by their order.
func TestNamesOfFamiliesAreUnique(t *testing.T) {
	of := map[string]string{}
	for _, f := range families {
		for name := range strings.FieldsSeq(f.Names) {
			if of[name] != "" {
				t.Errorf("%s is of %s and of %s", name, of[name], f.Arch)
			}
			of[name] = f.Arch
		}
	}
}

// TestHugeHead checks that tables with an entry for each channel of a head are not made for absurd heads.
func TestHugeHead(t *testing.T) {
	for _, name := range []string{"head_dim", "global_head_dim"} {
		c := new(hf.Config).Part(map[string]any{
			name: 2e9, "hidden_size": 64.0, "num_attention_heads": 4.0, "num_hidden_layers": 2.0,
			"rope_scaling": map[string]any{"rope_type": "llama3"},
		})
		(&lang.Keys{Config: c}).All(&lang.Family{})
		gemma4Factors(c)
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "channels of a head") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A literal is a variable whose value is a struct literal, and the value of one of its fields.
type literal struct{ file, name, value string }

// literals returns the variables in files that are literals of a type, with the value of a field that is a string.
func literals(t *testing.T, files, typ, field string) []literal {
	t.Helper()
	paths, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	var found []literal
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			lit, ok := v.Values[0].(*ast.CompositeLit)
			if !ok {
				return true
			}
			named := lit.Type
			if sel, ok := named.(*ast.SelectorExpr); ok {
				named = sel.Sel
			}
			if id, ok := named.(*ast.Ident); !ok || id.Name != typ {
				return true
			}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == field {
					value, err := strconv.Unquote(kv.Value.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatalf("%s: %s of %s: %v", path, field, v.Names[0].Name, err)
					}
					found = append(found, literal{filepath.Base(path), v.Names[0].Name, value})
				}
			}
			return true
		})
	}
	return found
}
