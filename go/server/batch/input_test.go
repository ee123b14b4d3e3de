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

// What is wrong with a line is told with the line, what it has and what would do. Its end counts as part of it.
func TestFaults(t *testing.T) {
	id := func(n int) string { return line(strings.Repeat("i", n), `{}`) }
	for _, tt := range []struct{ line, code, param, want string }{
		{id(512), "", "", ""},
		{id(513), "invalid_request", "custom_id", "longer than 512 bytes"},
		{id(0), "invalid_request", "custom_id", "custom_id is missing"},
		{line("first", `{}`), "duplicate_custom_id", "custom_id", `custom_id "first": an earlier line has it`},
		{strings.Replace(line("a", `{}`), "POST", "GET", 1), "invalid_request", "method", `method "GET", want POST`},
		{strings.Replace(line("a", `{}`), endpoint, "/v1/x", 1), "invalid_request", "url", `url "/v1/x", want /v1/responses`},
		{`{"custom_id":"a"`, "invalid_json_line", "", "not a JSON object"},
		{strings.Repeat("x", MaxLine-1), "invalid_json_line", "", "not a JSON object"},
		{strings.Repeat("x", MaxLine), "invalid_line", "", "more than 8 MiB, want a shorter request"},
		{" \t ", "", "", ""},
	} {
		list, faults, err := readInput(strings.NewReader(line("first", "{}")+"\r\n\n"+tt.line+"\n"+line("last", "{}")), endpoint)
		good := 2
		if tt.code == "" && strings.TrimSpace(tt.line) != "" {
			good++
		}
		switch {
		case err != nil || len(list) != good || list[0].ID != "first" || list[good-1].ID != "last":
			t.Errorf("%.80s: %d requests, %v", tt.line, len(list), err)
		case tt.code == "" && len(faults) > 0:
			t.Errorf("%.80s: %+v", tt.line, faults)
		case tt.code != "" && (len(faults) != 1 || faults[0].Code != tt.code || faults[0].Param != tt.param || faults[0].Line != 3 ||
			!strings.Contains(faults[0].Message, tt.want)):
			t.Errorf("%.80s: %+v, want %s", tt.line, faults, tt.want)
		}
	}
}

// An input has requests, so many at most, and only the first faults are told.
func TestInputIsBounded(t *testing.T) {
	for text, want := range map[string]string{"": "the input has no requests", "\n \n": "the input has no requests"} {
		if list, faults, err := readInput(strings.NewReader(text), endpoint); err != nil || len(list) > 0 || len(faults) != 1 ||
			faults[0].Code != "empty_file" || !strings.Contains(faults[0].Message, want) {
			t.Errorf("%q: %+v, %v", text, faults, err)
		}
	}
	if _, faults, err := readInput(strings.NewReader(strings.Repeat("{\n", 1000)), endpoint); err != nil || len(faults) != 100 || faults[99].Line != 100 {
		t.Errorf("%d faults, %v", len(faults), err)
	}
	var many strings.Builder
	for i := range MaxLines {
		many.WriteString(line(fmt.Sprint(i), "{}") + "\n")
	}
	if list, faults, err := readInput(strings.NewReader(many.String()), endpoint); err != nil || len(list) != 50_000 || faults != nil {
		t.Errorf("%d requests, %+v, %v", len(list), faults, err)
	}
	many.WriteString(line("more", "{}"))
	if list, faults, err := readInput(strings.NewReader(many.String()), endpoint); err != nil || list != nil || len(faults) != 1 ||
		faults[0].Code != "too_many_requests" || faults[0].Line != 50_001 {
		t.Errorf("%d requests, %+v, %v", len(list), faults, err)
	}
}
