package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// References that fan out are each followed once, and properties do not multiply the definitions.
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
	for i := range 100 {
		list = append(list, fmt.Sprintf(`"p%d":{"type":"integer"}`, i))
	}
	large := `{"properties":{` + strings.Join(list, ",") + `},"$defs":{"a":{"description":"` + strings.Repeat("x", 100_000) + `"}}}`
	if _, _, err := properties(json.RawMessage(large)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
	}
}
