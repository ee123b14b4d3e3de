package repl

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hinshun/vt10x"
)

// screen returns the rows of a terminal of a width after a text was written in parts.
func screen(text string, columns int, cut func(rest string) int) []string {
	w := wrapper{columns: func() int { return columns }}
	term := vt10x.New(vt10x.WithSize(columns, 60))
	for text != "" {
		n := cut(text)
		_, _ = term.Write([]byte(strings.ReplaceAll(w.wrap(text[:n]), "\n", "\r\n")))
		text = text[n:]
	}
	var rows []string
	for _, row := range strings.Split(term.String(), "\n") {
		rows = append(rows, strings.TrimRight(row, " "))
	}
	return rows
}

func TestLinesBreakBetweenWords(t *testing.T) {
	const text = "The scarf is for you, said the fox.\n\n  Donaudampfschifffahrtsgesellschaft and a tail\tend"
	want := []string{
		"The scarf is", "for you, said", "the fox.", "", "", "Donaudampfsch", "ifffahrtsgese", "llschaft and", "a tail\tend",
	}
	want[8] = "a tail  end"
	for _, size := range []int{1, 3, len(text)} {
		rows := screen(text, 14, func(rest string) int { return min(size, len(rest)) })
		for i, row := range want {
			if rows[i] != row {
				t.Errorf("parts of %d bytes: row %d is %q, want %q", size, i, rows[i], row)
			}
		}
	}
}

// However a text comes, no word that fits a line is cut, and nothing is lost.
func TestNoWordIsCut(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		columns := 8 + r.IntN(30)
		var words []string
		for range 40 {
			words = append(words, strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(columns-2)))
		}
		rows := screen(strings.Join(words, " "), columns, func(rest string) int { return 1 + r.IntN(len(rest)) })
		var shown []string
		for _, row := range rows {
			shown = append(shown, strings.Fields(row)...)
		}
		if got, want := strings.Join(shown, " "), strings.Join(words, " "); got != want {
			t.Fatalf("seed %d, %d columns: got\n%s\nwant the words\n%s", seed, columns, strings.Join(rows, "\n"), want)
		}
	}
}

func TestWideCharactersFillLines(t *testing.T) {
	w := wrapper{columns: func() int { return 9 }}
	if got, want := w.wrap("世界世界世界"), "世界世界\n世界"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	narrow := wrapper{columns: func() int { return 2 }}
	if got := narrow.wrap("words"); got != "words" {
		t.Errorf("in two columns: got %q, want it unchanged", got)
	}
}
