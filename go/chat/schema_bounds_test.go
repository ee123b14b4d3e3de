package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// References that fan out are each followed once, and properties share the definitions.
func TestSchemaBounds(t *testing.T) {
	defs := `"s":{"type":"string"}`
	for i := range 7 {
		next := fmt.Sprintf(`{"$ref":"#/$defs/%s"},`, map[bool]string{true: "s", false: fmt.Sprint(i + 1)}[i == 6])
		defs += fmt.Sprintf(`,"%d":{"anyOf":[%s]}`, i, strings.TrimSuffix(strings.Repeat(next, 30), ","))
	}
	root := json.RawMessage(`{"$defs":{` + defs + `}}`)
	r := kindsReader{root: root, refs: map[string][]string{}}
	r.kinds(json.RawMessage(`{"$ref":"#/$defs/3"}`), 0)
	if r.steps > 300 {
		t.Errorf("%d steps for 4 definitions of 30 references", r.steps)
	}
	if kinds := schemaKinds(root, json.RawMessage(`{"$ref":"#/$defs/6"}`)); !slices.Equal(kinds, []string{"string"}) {
		t.Errorf("%q", kinds)
	}
	var list []string
	for i := range 300 {
		list = append(list, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i))
	}
	large := `{"properties":{` + strings.Join(list, ",") + `},"$defs":{"a":{"enum":["` + strings.Repeat("x", 5_000) + `"]}}}`
	for _, name := range []string{"Qwen3-Coder", "Gemma 4"} {
		p := promptIn(t, name, []Tool{{Name: "f", Parameters: json.RawMessage(large)}})
		g := &grammar.Grammar{}
		if _, err := p.Language(g, nil, &CallRule{}, func(string) (int32, bool) { return 0, false }); err != nil {
			t.Fatal(name, err)
		}
		values := 0
		for _, r := range g.Rules {
			if strings.Contains(fmt.Sprint(r.Expr), "xxx") {
				values++
			}
		}
		if name == "Gemma 4" && values > 1 {
			t.Errorf("%s: the definition is in %d rules", name, values)
		}
	}
}
