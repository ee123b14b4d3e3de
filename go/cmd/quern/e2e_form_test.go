package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// The flags hold the texts of every command.
func TestForms(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"integer","maximum":9,"minimum":0},"b":{"enum":["x","y"]}},"required":["a","b"]}`
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	is := func(text string) {
		t.Helper()
		var v struct {
			A *int
			B string
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.A == nil || v.B != "x" && v.B != "y" {
			t.Errorf("%q: %v", text, err)
		}
	}
	is(succeed(t, "run", "-m", demo.Name, "-p", "Once", "-n", "100", "--temp", "3", "-j", schema))
	is(succeed(t, "chat", "-m", demo.Name, "-p", "Once", "-n", "100", "--temp", "3", "-jf", file))
	if got := succeed(t, "run", "-m", demo.Name, "-p", "Once", "-n", "50", "--temp", "3", "--grammar", `root ::= [ab]{4} "!"`); !regexp.MustCompile(`^[ab]{4}!\n?$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	s := serve(t, demo.Name, "--temp", "3", "-n", "100", "--json-schema-file", file)
	_, v := s.post("/completion", `{"prompt":"Once"}`)
	content, _ := v["content"].(string)
	is(content)
	// A request's form replaces the server's.
	if _, v := s.post("/completion", `{"prompt":"Once","guided_choice":["yes"]}`); v["content"] != "yes" {
		t.Errorf("%v, want yes", v["content"])
	}
}
