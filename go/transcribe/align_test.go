package transcribe

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// timeline shows words with their times.
func timeline(all []timed) string {
	var parts []string
	for _, w := range all {
		parts = append(parts, fmt.Sprintf("%q %.2f-%.2f %d", w.Text, w.Start, w.End, w.tokens))
	}
	return strings.Join(parts, ", ")
}

// Words are longer than a sound can be at ends of sentences, and signs go with the words beside them.
func TestShortenAndJoin(t *testing.T) {
	all := []timed{
		{Word{0, 0.2, " Yes"}, 1}, {Word{0.2, 3, "."}, 1}, {Word{3, 3, " \""}, 1}, {Word{3, 3.2, "No"}, 2}, {Word{3.2, 3.4, ","}, 1},
		{Word{3.4, 3.6, " so"}, 1}, {Word{3.6, 5, " long"}, 1},
	}
	if span := shorten(all); math.Abs(span-0.2) > 1e-9 {
		t.Errorf("a median of %v", span)
	}
	joinPunctuation(all)
	const want = `" Yes." 0.00-0.20 2, "" 0.20-0.60 0, "" 3.00-3.00 0, " \"No," 3.00-3.20 4, "" 3.20-3.40 0, " so" 3.40-3.60 1, " long" 3.60-5.00 1`
	if got := timeline(all); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if shorten(nil) != 0 {
		t.Error("no words have a length")
	}
	joinPunctuation(nil)
}

// Signs that are no run of ASCII, such as an ellipsis, stay with the word before them, as in the reference.
func TestIsPunctuation(t *testing.T) {
	for s, want := range map[string]bool{".": true, " ,": true, "()": true, "": true, "...": false, ".\"": false, "?!": false, "a": false, "。": false} {
		if got := isPunctuation(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// A word that is too long behind a pause begins later, and a segment ends with its last word unless that is too long.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		words      []Word
		start, end float64
		before     float64
		want       string
	}{
		{[]Word{{1, 1.3, "a"}, {1.3, 1.5, "b"}}, 0.9, 1.6, 0.9, "1.00-1.50: 1.00-1.30 1.30-1.50"},
		{[]Word{{1, 4, "a"}, {4, 4.2, "b"}}, 1, 4.2, 0, "3.40-4.20: 3.40-4.00 4.00-4.20"},
		{[]Word{{1, 2, "a"}, {2, 5, "b"}}, 1, 5, 0, "3.80-5.00: 3.80-4.40 4.40-5.00"},
		{[]Word{{1, 1.8, "a"}}, 1.7, 1.8, 1, "1.70-1.80: 1.50-1.80"},
		{[]Word{{1, 1.2, "a"}, {1.2, 3, "b"}}, 1, 1.5, 1, "1.00-1.50: 1.00-1.20 1.20-1.50"},
	} {
		s := Segment{Start: c.start, End: c.end, Words: c.words}
		end := s.settle(c.before, 0.3)
		var words []string
		for _, w := range s.Words {
			words = append(words, fmt.Sprintf("%.2f-%.2f", w.Start, w.End))
		}
		if got := fmt.Sprintf("%.2f-%.2f: %s", s.Start, s.End, strings.Join(words, " ")); got != c.want || end != s.End {
			t.Errorf("%s, ends %v; want %s", got, end, c.want)
		}
	}
	if (&Segment{End: 3}).settle(1, 0.3) != 1 {
		t.Error("a segment without words has said something")
	}
}

// The cheapest way goes on through rows and positions, and never back.
func TestWarp(t *testing.T) {
	weights := [][]float64{{9, 3, -1, -1, 2, -1}, {-1, -1, 9, 9, -1, -1}, {-1, 5, -1, -1, 7, 9}}
	got := warp(weights)
	for i, want := range []float64{0, 2, 4} {
		if position := math.Round(got[i] * Step); position != want {
			t.Errorf("row %d at position %v, want %v", i, position, want)
		}
	}
	if row := medians([]float64{5, 1, 9, 1, 1, 1, 1, 1}); row[2] != 1 || len(medians([]float64{1, 2})) != 2 {
		t.Errorf("medians %v", row)
	}
}
