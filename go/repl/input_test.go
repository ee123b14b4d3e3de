package repl

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestWhatIsTyped(t *testing.T) {
	for _, c := range []struct {
		typed         string
		whole         bool
		command, text string // where it is whole
	}{
		{"hello", true, "", "hello"},
		{"", true, "", ""},
		{`one \`, false, "", ""},
		{"one \\\ntwo", true, "", "one \ntwo"},
		{"one \\\ntwo\\", false, "", ""},
		{`back \ slash`, true, "", `back \ slash`},
		{`"""`, false, "", ""},
		{`""""`, false, "", ""},
		{`"""""`, false, "", ""},
		{`""""""`, true, "", ""},
		{`"""one`, false, "", ""},
		{"\"\"\"\none\n\ntwo\\\nthree\n\"\"\"", true, "", "one\n\ntwo\\\nthree"},
		{"  \"\"\" one\ntwo \"\"\" ", true, "", " one\ntwo "},
		{"\"\"\"\n/help\n\"\"\"", true, "", "/help"},
		{`say """ then`, true, "", `say """ then`},
		{"/help", true, "/help", ""},
		{"  /set temp 0.5", true, "/set", "temp 0.5"},
		{"/system \"\"\"\nBe brief.", false, "", ""},
		{"/system \"\"\"\nBe brief.\nBe kind.\"\"\"", true, "/system", "Be brief.\nBe kind."},
		{"/system Be\\\nbrief.", true, "/system", "Be\nbrief."},
		{"//help", true, "", "/help"},
		{" //help", true, "", "/help"},
		{"/system //x", true, "/system", "/x"},
		{"a // b", true, "", "a // b"},
	} {
		if got := whole(c.typed); got != c.whole {
			t.Errorf("%q: whole is %v, want %v", c.typed, got, c.whole)
		}
		if !c.whole {
			continue
		}
		command, body := split(c.typed)
		if got := text(body); command != c.command || got != c.text {
			t.Errorf("%q: got command %q and text %q, want %q and %q", c.typed, command, got, c.command, c.text)
		}
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
		err  string // after them; "": the end
	}{
		{"", nil, ""},
		{"one\ntwo\r\n\nthree", []string{"one", "two", "", "three"}, ""},
		{"one \\\ntwo\nthree\n", []string{"one \\\ntwo", "three"}, ""},
		{"\"\"\"one\n\n  two\n\"\"\"\nthree\n", []string{"\"\"\"one\n\n  two\n\"\"\"", "three"}, ""},
		{"\xffa\n", nil, "not UTF-8"},
		{"one\n\xcf\xf0\xe8\xe2\xe5\xf2\nthree", []string{"one"}, "not UTF-8"}, // in code page 1251
		{"\ufeffone\n\ufefftwo\n", []string{"one", "\ufefftwo"}, ""},
		{`one \`, []string{`one \`}, ""},
		{"a\n\"\"\"one\ntwo\n", []string{"a"}, "has no end"},
		{"a\n" + strings.Repeat("x", maxMessage+1), []string{"a"}, "longer than 16 MiB"},
		{strings.Repeat(strings.Repeat("x", maxMessage/4)+"\\\n", 5), nil, "longer than 16 MiB"},
	} {
		l := NewLines(strings.NewReader(c.in), nil)
		for _, want := range c.want {
			if got, err := l.Read(); got != want || err != nil {
				t.Errorf("%.40q: got %.40q and %v, want %q", c.in, got, err, want)
			}
		}
		got, err := l.Read()
		if c.err == "" && !errors.Is(err, io.EOF) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%.40q: got %.40q and %v at the end, want %q", c.in, got, err, c.err)
		}
	}
}

func TestLinesAskAPerson(t *testing.T) {
	var prompts strings.Builder
	l := NewLines(strings.NewReader("one\\\ntwo\n\xffa\n"), &prompts)
	if _, err := l.Read(); err != nil {
		t.Fatal(err)
	}
	if typed, err := l.Read(); typed != "\uFFFDa" || err != nil {
		t.Errorf("half a character is %q, %v", typed, err)
	}
	if got := prompts.String(); got != "> . > " {
		t.Errorf("got prompts %q", got)
	}
}
