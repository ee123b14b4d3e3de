package jinja

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// generous is more than any sensible template needs.
var generous = Limits{Steps: 1e6, Bytes: 16 << 20}

// render parses and renders with variables from a JSON object.
func render(template string, vars json.RawMessage, limits Limits) (string, error) {
	t, err := Parse(template)
	if err != nil {
		return "", err
	}
	m := map[string]any{"raise_exception": Func(func(args []any) (any, error) {
		return nil, errors.New("raised")
	})}
	if vars != nil {
		v, err := FromJSON(vars)
		if err != nil {
			return "", err
		}
		for i, k := range v.(*Dict).keys {
			m[plain(k).(string)] = v.(*Dict).values[i]
		}
	}
	text, _, err := t.Render(context.Background(), m, &limits)
	return text, err
}

// The cases are rendered by Python's jinja2: see scripts/golden_jinja.py.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Template, Want, Error string
		Vars                  json.RawMessage
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 100 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		got, err := render(c.Template, c.Vars, generous)
		switch {
		case c.Error != "" && err == nil:
			t.Errorf("%q gives %q; in jinja2 it fails: %s", c.Template, got, c.Error)
		case c.Error == "" && err != nil:
			t.Errorf("%q fails: %v; in jinja2 it gives %q", c.Template, err, c.Want)
		case got != c.Want:
			t.Errorf("%q gives\n%q, not\n%q", c.Template, got, c.Want)
		}
	}
}
