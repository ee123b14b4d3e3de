package chat

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// shown is a prompt with its media in their places.
func shown(p Prompt) string {
	var b strings.Builder
	for _, piece := range p.Pieces() {
		if b.WriteString(piece.Text); piece.Medium != nil {
			b.WriteString("[" + string(piece.Medium.Data) + "]")
		}
	}
	return b.String()
}

func seen(name string) Part { return Part{Medium: &Medium{Kind: Picture, Data: []byte(name)}} }

// Media stand where the conversation has them, in each published template, in messages of users and of tools, as often as
// they are there; what looks like a marker of someone else's is text.
func TestMediaInTemplates(t *testing.T) {
	const odd = "<__media__>"
	user := Content{Parts: []Part{{Text: "before"}, seen("one"), {Text: odd + "between"}, seen("two"), {Text: "after"}}}
	want := "before[one]" + odd + "between[two]after"
	n := 0
	for name, source := range templates(t) {
		parsed, err := Parse(source, tokens)
		if err != nil {
			continue // TestRenderings says so
		}
		in := Input{Messages: []Message{{Role: "user", Content: user}}, AddGenerationPrompt: true, Now: now}
		p, err := parsed.Render(in)
		if err != nil {
			if text, without := parsed.Render(Input{Messages: []Message{{Role: "user", Content: Text("x")}}, AddGenerationPrompt: true, Now: now}); without == nil {
				t.Errorf("%s: %v; a text gives %q", name, err, text.Text)
			}
			continue
		}
		n++
		flat := strings.NewReplacer("\n", "", " ", "").Replace(shown(p)) // some templates have a line for each part
		if !strings.Contains(flat, want) {
			t.Errorf("%s: %q", name, shown(p))
		}
		if strings.Contains(p.Text, "medium") && !strings.Contains(source, "medium") {
			t.Errorf("%s: a marker stays in %q", name, p.Text)
		}
		for _, piece := range p.Pieces() {
			for _, r := range piece.Literal {
				if r[0] < 0 || r[0] >= r[1] || r[1] > len(piece.Text) {
					t.Errorf("%s: ranges %v of %q", name, piece.Literal, piece.Text)
				}
			}
			if i := strings.Index(piece.Text, odd); i >= 0 && !inside(piece.Literal, i, i+len(odd)) {
				t.Errorf("%s: the user's text is the template's own: %v of %q", name, piece.Literal, piece.Text)
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d templates", n)
	}
}

func inside(ranges [][2]int, from, to int) bool {
	for _, r := range ranges {
		if r[0] <= from && to <= r[1] {
			return true
		}
	}
	return false
}

func TestMediaPlaces(t *testing.T) {
	chatml, err := Builtin("chatml")
	if err != nil {
		t.Fatal(err)
	}
	plain := func(m Message) string { return m.Role }
	for _, c := range []struct {
		name, template string
		messages       []Message
		want           string
	}{
		{"alone", chatml, []Message{{Role: "user", Content: Content{Parts: []Part{seen("a")}}}},
			"<|im_start|>user\n[a]<|im_end|>\n"},
		{"no line ends beside media", chatml, []Message{{Role: "user", Content: Content{Parts: []Part{{Text: "x"}, {Text: "y"}, seen("a"), {Text: "z"}}}}},
			"<|im_start|>user\nx\ny[a]z<|im_end|>\n"},
		{"a system message, an answer", chatml, []Message{{Role: "system", Content: Content{Parts: []Part{seen("s"), {Text: "x"}}}},
			{Role: "user", Content: Text("y")}, {Role: "assistant", Content: Content{Parts: []Part{seen("b")}}}},
			"<|im_start|>system\n[s]x<|im_end|>\n<|im_start|>user\ny<|im_end|>\n<|im_start|>assistant\n[b]<|im_end|>\n"},
		{"results of tools", chatml, []Message{{Role: "user", Content: Text("y")},
			{Role: "assistant", ToolCalls: []ToolCall{{"1", "function", Function{"f", "{}"}}}},
			{Role: "tool", ToolCallID: "1", Name: "f", Content: Content{Parts: []Part{{Text: "see"}, seen("r")}}}},
			"The result of f:\nsee[r]"},
		{"without a system role", "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}",
			[]Message{{Role: "system", Content: Content{Parts: []Part{seen("s")}}}, {Role: "user", Content: Content{Parts: []Part{seen("u"), {Text: "?"}}}}},
			"<user>[s]\n\n[u]?"},
		{"turned", "{% for m in messages|reverse %}{{ m.content }};{% endfor %}",
			[]Message{{Role: "user", Content: Content{Parts: []Part{seen("a")}}}, {Role: "user", Content: Content{Parts: []Part{seen("b"), seen("c")}}}}, "[b][c];[a];"},
		{"left out", "{{ messages[0].content }}", []Message{{Role: "user", Content: Text("x")}, {Role: "user", Content: Content{Parts: []Part{seen("a")}}}},
			"the model's chat template leaves out 1 of 1 media, the first of them a picture: want it in a message of another role, or a template that shows it"},
		{"repeated", "{{ messages[0].content }}{{ messages[0].content }}", []Message{{Role: "user", Content: Content{Parts: []Part{seen("a")}}}},
			"the model's chat template changes or repeats the place of a medium: it is made for text"},
		{"changed", "{{ messages[0].content[:-1] }}", []Message{{Role: "user", Content: Content{Parts: []Part{seen("a")}}}},
			"the model's chat template changes or repeats the place of a medium: it is made for text"},
	} {
		parsed, err := Parse(c.template, tokens)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parsed.Render(Input{Messages: c.messages, Now: now})
		got := shown(p)
		if refused := (*RequestError)(nil); errors.As(err, &refused) {
			got = err.Error()
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		for _, m := range c.messages {
			for _, part := range m.Content.Parts {
				if part.Medium != nil && part.Text != "" {
					t.Errorf("%s: the message of the %s was changed", c.name, plain(m))
				}
			}
		}
	}
}

// What is in front of a medium in a text of the user and behind it makes no control token, and pieces keep what is literal.
func TestPieces(t *testing.T) {
	p := Prompt{Text: "abcdef", Literal: [][2]int{{1, 5}}, Media: []Placed{{0, &Medium{}}, {3, &Medium{}}, {3, &Medium{}}, {6, &Medium{}}}}
	var got []string
	for _, piece := range p.Pieces() {
		if piece.Medium != nil {
			got = append(got, "*")
			continue
		}
		got = append(got, piece.Text)
		if want := map[string][][2]int{"abc": {{1, 3}}, "def": {{0, 2}}}[piece.Text]; !reflect.DeepEqual(piece.Literal, want) {
			t.Errorf("%q: %v", piece.Text, piece.Literal)
		}
	}
	if s := strings.Join(got, " "); s != "* abc * * def *" {
		t.Error(s)
	}
}

func TestMediaJSON(t *testing.T) {
	c := Content{Parts: []Part{{Text: "x"}, {Medium: &Medium{Kind: Picture, Data: []byte("\x89PNG"), Detail: "low"}}, {Medium: &Medium{Kind: Sound, Data: []byte("RIFF")}}}}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back Content
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("%s: %v, %v", data, back, err)
	}
}
