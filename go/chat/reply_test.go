package chat

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// parts is a reply, put together from its deltas.
type parts struct{ content, reasoning string }

func (p *parts) add(t testing.TB, deltas []Delta) {
	t.Helper()
	for _, d := range deltas {
		if (d.Content == "") == (d.Reasoning == "") {
			t.Errorf("a delta of two kinds, or of none: %+v", d)
		}
		if d.Reasoning != "" && p.content != "" {
			t.Errorf("reasoning %q after the content %q", d.Reasoning, p.content)
		}
		p.content += d.Content
		p.reasoning += d.Reasoning
	}
}

// parseReply returns the parts of a text that comes in pieces.
func parseReply(t testing.TB, r *Reply, pieces ...string) (p parts) {
	t.Helper()
	for _, piece := range pieces {
		p.add(t, r.Write(piece))
	}
	p.add(t, r.Close())
	return p
}

// cutUp cuts text at random, and within characters where these are not whole.
func cutUp(text string, whole bool) (pieces []string) {
	for text != "" {
		n := 1 + rand.IntN(min(len(text), 12))
		for whole && n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

func TestReply(t *testing.T) {
	const think = "{{ '<think>' }}"
	for _, c := range []struct{ source, prompt, continued, text, content, reasoning string }{
		{think, "", "", "hello", "hello", ""},
		{think, "", "", "  hello", "  hello", ""},
		{think, "", "", "\n\n", "\n\n", ""},
		{think, "", "", "<think>a b</think>c", "c", "a b"},
		{think, "", "", "\n<think>\n\na\n</ b\n\n</think>\n\n c <think>d</think>", "c <think>d</think>", "a\n</ b"},
		{think, "", "", "<think>a</think><think>b</think>", "<think>b</think>", "a"},
		{think, "", "", "<thin air", "<thin air", ""},
		{think, "", "", "<think></think>", "", ""},
		{think, "", "", "<think>never ends </thi", "", "never ends </thi"},
		{think, "", "", " <thi", " <thi", ""},
		{think, "", "", "<think>a<</think></think>b", "</think>b", "a<"},
		{think, "", "", "<think>\u00e9\u00e8</think>\u20ac", "\u20ac", "\u00e9\u00e8"},
		// The prompt opens the reasoning, or closes it as empty.
		{think, "x<think>\n", "", "a</think>b", "b", "a"},
		{think, "x<think>\n", "", " \n", "", ""},
		{think, "x<think>\n\n</think>\n\n", "", "a", "a", ""},
		{think, "x<think>\n\n</think>\n\n", "", "\n a\n", "a\n", ""},
		{think, "x<think>\n\n</think>\n\n", "", "<think>b</think>a", "a", "b"},
		{think, "<think> in a question, then the answer:", "", "a</think>", "a</think>", ""},
		// The prompt ends within a message.
		{think, "xWell, ", "Well, ", " <think>b</think>", " <think>b</think>", ""},
		{think, "x<think>\nLet me", "<think>\nLet me", " see.\n</think>\nYes", "Yes", " see."},
		{think, "x<think>\nOne.\n\n", "<think>\nOne.\n\n", "Two.</think>Yes", "Yes", "Two."},
		{think, "x<think>a</think>", "<think>a</think>", "\nb", "b", ""},
		{"{{ '<|end_of_msg|>' }}", "x<|open|>think<|sep|>", "", "a<|close|>think<|sep|><|open|>response<|sep|>b <|open|> c<|close|>response<|sep|><|close|>message<|sep|>", "b <|open|> c", "a"},
		{"{{ '<|end_of_msg|>' }}", "x<|open|>response<|sep|>", "", "b<|close|>response<|sep|><|close|>message<|sep|>", "b", ""},
		{"<|tool_call:begin|>", "x<|begin|>assistant", "", "<|think|>a<|end|><|begin|>assistant<|content|>b<|end|>", "b", "a"},
		{"</mm:think>", "x<mm:think>", "", "a</mm:think>b", "b", "a"},
		{"<|inner_prefix|>", "", "", "<|inner_prefix|>a<|inner_suffix|>b", "b", "a"},
		// The marks of other families.
		{"{{ messages }}", "", "", "<think>a</think>b", "<think>a</think>b", ""},
		{"[THINK]", "", "", "[THINK]a[1][/THINK]b", "b", "a[1]"},
		{"</seed:think>", "", "", "<seed:think>a</seed:think>b", "b", "a"},
		{"<thinking>", "", "", "<thinking>a</thinking>b", "b", "a"},
		{"<|channel>thought\n", "", "", "<|channel>thought\na\n<channel|>b", "b", "a"},
		{"<|channel>thought\n", "x<|channel>thought\n<channel|>", "", "b", "b", ""},
		{"<|START_THINKING|>", "", "", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b <|c<|END_RESPONSE|>", "b <|c", "a"},
		{"<|START_THINKING|>", "", "", "<|START_RESPONSE|>b<|END_RESPONSE|>", "b", ""},
		{"<|START_THINKING|>", "", "", "b<|END_RESP", "b<|END_RESP", ""},
	} {
		for i := range 50 {
			r := &Reply{style: styleOf(c.source)}
			r.after(c.prompt, c.continued)
			got := parseReply(t, r, cutUp(c.text, i%2 == 0)...)
			if want := (parts{c.content, c.reasoning}); got != want {
				t.Fatalf("%q after %q: got %+v, want %+v", c.text, c.prompt, got, want)
			}
		}
	}
}

// What a Reply does not have to hold back comes at once.
func TestReplyHoldsBackLittle(t *testing.T) {
	r := &Reply{style: styleOf("<think>")}
	for _, c := range []struct {
		text string
		want Delta
	}{
		{"<think>\n", Delta{}},
		{"One", Delta{Reasoning: "One"}},
		{" \n", Delta{}},
		{"two <", Delta{Reasoning: " \ntwo"}},
		{"b", Delta{Reasoning: " <b"}},
		{"</think", Delta{}},
		{">\n\n", Delta{}},
		{"Yes ", Delta{Content: "Yes "}},
		{"<", Delta{Content: "<"}},
	} {
		got := r.Write(c.text)
		if len(got) > 1 || (len(got) == 1) != (c.want != Delta{}) || len(got) == 1 && got[0] != c.want {
			t.Errorf("%q gives %+v, want %+v", c.text, got, c.want)
		}
	}
}

// Each of the real templates that opens or closes the reasoning does so in a way
// that is recognized.
func TestReplyToTemplates(t *testing.T) {
	reasons := map[string]bool{}
	for name, source := range templates(t) {
		tmpl := parse(t, source)
		if tmpl.style == nil {
			continue
		}
		for _, kwargs := range []string{`{}`, `{"enable_thinking":true}`, `{"enable_thinking":false}`} {
			in := input(t, `[{"role":"user","content":"Hello"}]`, kwargs, now)
			in.AddGenerationPrompt = true
			p, err := tmpl.Render(in)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			text := "A</s>" + tmpl.style.shut + "B"
			if end := strings.TrimSpace(p.Text); !strings.HasSuffix(end, tmpl.style.open) {
				text = tmpl.style.open + "A</s>" + tmpl.style.shut + "B"
			}
			if got := parseReply(t, p.Reply(), text); got != (parts{"B", "A</s>"}) {
				t.Errorf("%s with %s: after %q got %+v", name, kwargs, p.Text[max(0, len(p.Text)-40):], got)
			}
			reasons[name] = true
		}
	}
	if len(reasons) < 10 {
		t.Errorf("only %d templates know reasoning", len(reasons))
	}
}

// Where a text is cut makes no difference, and pieces of whole characters give
// deltas of whole characters.
func FuzzReply(f *testing.F) {
	for _, s := range styles {
		f.Add(s.open+s.shut, "", "\n"+s.open+"\na\n"+s.shut+"\n\nb"+strings.Join(s.dropped, " "), uint16(0x1234))
		f.Add(s.open+s.shut, s.open, "a\u00e9"+s.shut+s.shut[:len(s.shut)-1], uint16(0x0101))
	}
	f.Fuzz(func(t *testing.T, source, continued, text string, cuts uint16) {
		reply := func() *Reply {
			r := &Reply{style: styleOf(source)}
			r.after(continued, continued)
			return r
		}
		want := parseReply(t, reply(), text)
		r, got := reply(), parts{}
		for rest, i := text, 0; rest != ""; i++ {
			n := min(len(rest), 1+int(cuts>>(i%4*4)&15))
			deltas := r.Write(rest[:n])
			got.add(t, deltas)
			for _, d := range deltas {
				if len(d.Content)+len(d.Reasoning) > len(continued)+len(text) {
					t.Fatalf("%+v is more than there was", d)
				}
			}
			rest = rest[n:]
		}
		got.add(t, r.Close())
		if got != want {
			t.Fatalf("%q in pieces gives %+v, as a whole %+v", text, got, want)
		}
		if len(want.content)+len(want.reasoning) > len(text) {
			t.Fatalf("%q gives %+v, which is more", text, want)
		}
	})
}
