package constrain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/grammar/gbnf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// accepts reports whether a text is whole by a grammar, spelled byte by byte.
func accepts(c Constraint, pieces []string, text string) bool {
	n := 0
	defer func() { c.Rollback(n) }()
	for _, b := range []byte(text) {
		if !c.Accept(2 + int32(b)) {
			return false
		}
		n++
	}
	if !c.Accept(0) {
		return false
	}
	n++
	return true
}

func TestGrammarsOfLlamaCPP(t *testing.T) {
	var cases struct {
		Grammar []struct {
			Name, Grammar string
			Match         []string `json:"match"`
			NoMatch       []string `json:"no_match"`
		}
	}
	text, err := os.ReadFile(testdata.Path(t, "grammar/grammar_integration.llama.cpp.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	v, pieces := vocabulary(true)
	checked := 0
	for _, tt := range cases.Grammar {
		g, err := gbnf.Parse(tt.Grammar, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.Name, err)
			continue
		}
		a, err := v.Compile(g)
		if err != nil {
			t.Errorf("%s: %v", tt.Name, err)
			continue
		}
		c := a.New(true)
		for _, s := range tt.Match {
			checked++
			if !accepts(c, pieces, s) {
				t.Errorf("%s: %q does not match", tt.Name, s)
			}
		}
		for _, s := range tt.NoMatch {
			checked++
			if accepts(c, pieces, s) {
				t.Errorf("%s: %q matches", tt.Name, s)
			}
		}
	}
	if checked < 80 {
		t.Errorf("only %d texts", checked)
	}
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "grammar/gbnf"), "*.gbnf"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d grammars, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gbnf.Parse(string(text), nil, nil)
		if err == nil {
			_, err = v.Compile(g)
		}
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}
