package batch

import (
	"fmt"
	"strings"
	"testing"
)

const endpoint = "/v1/responses"

// line is a request of an input.
func line(id, body string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":%q,"body":%s}`, id, endpoint, body)
}

func TestReadInput(t *testing.T) {
	for _, tt := range []struct{ line, param string }{
		{line("a", `{"input":"x"}`), ""},
		{line("a", `{"input":"x","stream":false,"background":null}`), ""},
		{line("a", `{"input":"x","background":false,"Background":true,"Stream":true}`), ""}, // names that no endpoint has
		{line("a", `{"input":"x","stream":true}`), "body.stream"},
		{line("a", `{"input":"x","stream":true,"Stream":false}`), "body.stream"},
		{line("a", `{"input":"x","background":true}`), "body.background"},
		{line("a", `{"input":"x","background":true,"BACKGROUND":false}`), "body.background"},
		{strings.Replace(line("a", `{}`), "body", "Body", 1), "body"},
		{strings.Replace(line("a", `{}`), "custom_id", "Custom_ID", 1), "custom_id"},
		{line("a", `[]`), "body"},
	} {
		list, faults, err := readInput(strings.NewReader(line("first", "{}")+"\n"+tt.line+"\n"), endpoint)
		switch {
		case err != nil:
			t.Errorf("%s: %v", tt.line, err)
		case tt.param == "" && (len(faults) > 0 || len(list) != 2):
			t.Errorf("%s: %+v", tt.line, faults)
		case tt.param != "" && (len(faults) != 1 || faults[0].Param != tt.param || faults[0].Line != 2):
			t.Errorf("%s: %+v, want a fault of %s in line 2", tt.line, faults, tt.param)
		}
	}
}
