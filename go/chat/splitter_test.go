package chat

import (
	"math/rand/v2"
	"testing"
)

func TestSplitter(t *testing.T) {
	const source = "{{ '<think>' }}"
	for _, c := range []struct{ prompt, text, content, thoughts string }{
		{"", "hello", "hello", ""},
		{"", "  hello", "  hello", ""},
		{"", "<think>a b</think>c", "c", "a b"},
		{"", "\n<think>\n\na\n</ b\n\n</think>\n\n c <think>d</think>", "c <think>d</think>", "a\n</ b"},
		{"", "<thin air", "<thin air", ""},
		{"", "<think></think>", "", ""},
		{"", "<think>never ends </thi", "", "never ends </thi"},
		{"x<think>\n", "a</think>b", "b", "a"},
		{"x<think>\n\n</think>\n\n", "a", "a", ""},
		{"", "<thi", "<thi", ""},
	} {
		for range 20 {
			s := NewSplitter(source, c.prompt)
			content, thoughts := "", ""
			for rest := c.text; rest != ""; {
				n := 1 + rand.IntN(len(rest))
				x, y := s.Write(rest[:n])
				content, thoughts = content+x, thoughts+y
				rest = rest[n:]
			}
			x, y := s.Flush()
			content, thoughts = content+x, thoughts+y
			if content != c.content || thoughts != c.thoughts {
				t.Fatalf("%q after %q: got %q and %q, want %q and %q", c.text, c.prompt, content, thoughts, c.content, c.thoughts)
			}
		}
	}
	if NewSplitter("{{ messages }}", "") != nil {
		t.Error("a model that knows no thoughts has some")
	}
}
