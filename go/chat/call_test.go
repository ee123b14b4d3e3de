package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// testTools are what the calls of the tests are of.
var testTools = []Tool{
	{Name: "get_weather", Parameters: json.RawMessage(`{"type":"object","properties":{"place":{"type":"string"},"days":{"type":"integer"},
		"exact":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},"where":{"type":"object"},"any":{},
		"maybe":{"type":["string","null"]}},"required":["place"]}`)},
	{Name: "get_time"},
}

// transcript writes what a reply says, one line for each part.
func transcript(t testing.TB, r *Reply, pieces ...string) string {
	t.Helper()
	type part struct{ kind, text string }
	var parts []part
	ids := map[string]bool{}
	say := func(kind, text string) {
		if last := len(parts) - 1; last >= 0 && parts[last].kind == kind {
			parts[last].text += text
		} else {
			parts = append(parts, part{kind, text})
		}
	}
	add := func(deltas []Delta) {
		for _, d := range deltas {
			n := 0
			if d.Content != "" {
				say("content", d.Content)
				n++
			}
			if d.Reasoning != "" {
				say("reasoning", d.Reasoning)
				n++
			}
			if c := d.Call; c != nil {
				n++
				kind := fmt.Sprint(c.Index, " ")
				if c.Name != "" {
					id := c.ID
					if len(id) == 29 && strings.HasPrefix(id, "call_") || len(id) == 9 && !strings.Contains(id, "_") && !strings.HasPrefix(id, "fixed") {
						id = "*"
					}
					if ids[c.ID] {
						t.Errorf("two calls have the id %s", c.ID)
					}
					ids[c.ID] = true
					say(kind, c.Name+" "+id+" ")
				}
				say(kind, c.Arguments)
			}
			if n != 1 {
				t.Errorf("a delta of %d kinds: %+v", n, d)
			}
		}
	}
	for _, piece := range pieces {
		add(r.Write(piece))
	}
	add(r.Close())
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%s: %s\n", strings.TrimSpace(p.kind), p.text)
	}
	return b.String()
}

// A callCase is a reply in a syntax and its transcript. Without one it is all content.
type callCase struct {
	syntax *syntax
	text   string
	want   string
}

func TestCalls(t *testing.T) {
	for _, c := range callCases {
		want := c.want
		if want == "" {
			want = "content: " + c.text + "\n"
		}
		for i := range 40 {
			pieces := []string{c.text}
			if i > 0 {
				pieces = cutUp(c.text, i%2 == 0)
			}
			r := &Reply{style: &styles[0], syntax: c.syntax, tools: testTools}
			if got := transcript(t, r, pieces...); got != want {
				t.Fatalf("%q in %q:\n got %s\nwant %s", c.text, pieces, got, want)
			}
		}
	}
}

const (
	oneCall  = "0: get_weather * {\"place\": \"Rome\"}\n"
	twoCalls = oneCall + "1: get_time * {}\n"
)

var callCases = []callCase{
	{&hermes, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>", oneCall},
	{&hermes, "Let me see.\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_time\"}\n</tool_call>\n", "content: Let me see.\n" + twoCalls},
	{&hermes, "<think>\nhm <tool_call>\n</think>\n\n<tool_call>{\"arguments\": {\"place\": \"Rome\"}, \"name\": \"get_weather\"}</tool_call> Done", "reasoning: hm <tool_call>\n" + oneCall + "content: Done\n"},
	{&hermes, "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"place\\\": \\\"Rome\\\"}\"}", oneCall},
	{&hermes, "<tool_call>{\"id\": \"x1\", \"type\": \"function\", \"function\": {\"name\": \"get_time\", \"arguments\": {}}}</tool_call>", "0: get_time x1 {}\n"},
	{&hermes, "<tool_call>{\"name\": \"nobody\", \"arguments\": {\"a\": [1, -2.5e3, True, null, \"\\u00e9\n\\'\"]}}</tool_call>", "0: nobody * {\"a\": [1, -2.5e3, true, null, \"\\u00e9\\n'\"]}\n"},
	{&hermes, "  a <tool_call> b", ""},
	{&hermes, "<tool_call>\n{\"nam", ""},
	{&hermes, "<tool_call>{\"name\": 5}</tool_call>", ""},
	{&hermes, "<tool_call>{\"arguments\": {}}</tool_call> é", ""},
	{&hermes, "<tool_call><tool_call>{\"name\": \"get_time\"}</tool_call>", "content: <tool_call>\n0: get_time * {}\n"},
	{&hermes, "<tool_call>{\"name\": \"get_time\"}</tool_c", "0: get_time * {}\n"},
	{&hermes, "<tool_call>{\"name\": \"get_time\"} and more", "0: get_time * {}\ncontent:  and more\n"},
	{&hermes, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Ro", "0: get_weather * {\"place\": \"Ro\n"},
	{&hermes, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"place\" = 3}}</tool_call>", "0: get_weather * {\"place\" \ncontent: = 3}}</tool_call>\n"},
	{&hermes, "no call \n", ""},
	{&hermes, "<tool_call", ""},
}
