package quern

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Flags of the program that packages below speak of, where no caller of this package comes: keys and values in tiers, prompts
// that read some of their keys, NUMA nodes, shifted contexts, streamed weights, merged adapters, quantization, the conversion
// of adapters, and ranks.
var notHere = []string{"--kv-tiers", "--sparse-prompts", "--numa", "--split", "--context-shift", "--imatrix", "--base", "--calibration-memory", "--allow-requantize"}

// Each flag that a text of the packages below names is an option's name to callers, or known not to reach them.
func TestFlagsAreOptions(t *testing.T) {
	flags := regexp.MustCompile(`(?:^|[\s("])(--[a-z][a-z-]+|-[a-z]+ %)`)
	const module = "github.com/quern-llm/quern/go/"
	seen, found := map[string]bool{}, 0
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if dep, ours := strings.CutPrefix(name, module); ours && !seen[dep] {
					seen[dep] = true
					walk(filepath.Join("go", dep))
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING || dir == "." {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range flags.FindAllStringSubmatch(text, -1) {
					found++
					said := flags.FindAllStringSubmatch(inOptions.Replace(text), -1)
					kept := slices.ContainsFunc(said, func(s []string) bool { return s[1] == m[1] })
					if kept && !strings.Contains(inOptions.Replace(text), "quern convert "+m[1]) &&
						!slices.Contains(notHere, m[1]) && !slices.Contains(noOption, m[1]) {
						t.Errorf("%s: %q names %s, which is no option", path, text, m[1])
					}
				}
				return true
			})
		}
	}
	walk(".")
	if found < 10 {
		t.Errorf("only %d flags were found: the walk starts in the wrong place", found)
	}
}
