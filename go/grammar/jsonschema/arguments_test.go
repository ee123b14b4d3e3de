package jsonschema

import (
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// A member whose values cannot be texts leaves no rules to others: here what a is made of, which b refers to.
func TestMembersAfterFailure(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"$ref":"#/$defs/node"},"b":{"$ref":"#/$defs/list"},"c":{"type":"array","items":{"type":"integer"}}},"$defs":{
		"node":{"type":"object","properties":{"kids":{"$ref":"#/$defs/list"},"z":{"type":"array","not":{"uniqueItems":true}}}},
		"list":{"type":"array","items":{"$ref":"#/$defs/node"}}}}`
	g := &grammar.Grammar{}
	objects, err := Arguments(g, []byte(schema), Options{})
	if err != nil || len(objects) != 1 || len(objects[0].Members) != 3 {
		t.Fatalf("%+v, %v", objects, err)
	}
	members := objects[0].Members
	for i := range 2 {
		if e, err := members[i].Value(); err == nil {
			t.Errorf("%s: its values are %v, and [{\"kids\":[]}] is one: %v", members[i].Name, e, grammar.Match(g, e, `[{"kids":[]}]`, nil))
		}
	}
	e, err := members[2].Value()
	if err != nil || !grammar.Match(g, e, `[1, 2]`, nil) {
		t.Errorf("c: %v", err)
	}
}
