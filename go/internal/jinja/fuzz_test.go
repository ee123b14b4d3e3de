package jinja

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func FuzzRender(f *testing.F) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []struct{ Template string }
	if err := json.Unmarshal(data, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add(c.Template)
	}
	vars := json.RawMessage(`{"n":7,"f":2.5,"s":"Hé","t":true,"z":null,"l":[3,1,2],"e":[],
		"d":{"b":1,"a":{"x":[1,"two",null]}},"m":[{"role":"user","content":"hi","n":2}],"big":18446744073709551615}`)
	f.Fuzz(func(t *testing.T, source string) {
		limits := Limits{Steps: 20000, Bytes: 1 << 20}
		got, err := render(source, vars, limits)
		if err != nil && strings.Contains(err.Error(), "bug in") {
			t.Error(err)
		}
		if len(got) > limits.Bytes {
			t.Errorf("%d bytes of text", len(got))
		}
	})
}
