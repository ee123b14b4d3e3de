package transcribe_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/transcribe"
)

// Heads of the model attend to what transformers' attend to, and the way through that is its too.
func TestWordsWitness(t *testing.T) {
	data, err := os.ReadFile("testdata/words.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Text      []int32
		Positions []int
		Weights   []float64
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	head := []int32{257, 258, 261} // English, written down
	tokens := slices.Concat(head, []int32{265}, want.Text, []int32{256})
	for _, threads := range []int{1, 2} {
		l := listen(t, threads)
		l.Hear(sound(transcribe.Rate))
		scores, err := l.Align(t.Context(), tokens, len(want.Weights))
		if err != nil {
			t.Fatal(err)
		}
		if len(scores) != 3 || len(scores[0]) != len(tokens) {
			t.Fatalf("%d heads of %d tokens", len(scores), len(scores[0]))
		}
		far := 0.0
		for i, w := range transcribe.Weights(scores[0][len(head)]) {
			far = max(far, math.Abs(w-want.Weights[i]))
		}
		if far > 5e-5 {
			t.Errorf("%d threads: weights are off by %g", threads, far)
		}
		if got := transcribe.Alignment(scores, len(head)); !slices.Equal(got, want.Positions) {
			t.Errorf("%d threads: positions %v, want %v", threads, got, want.Positions)
		}
		if half, err := l.Align(t.Context(), tokens, 20); err != nil || len(half[2][4]) != 20 || half[2][4][7] != scores[2][4][7] {
			t.Errorf("of a part of the window: %v", err)
		}
	}
}

// Words have times in order within the sound, and together the text; segments begin and end with them.
func TestWords(t *testing.T) {
	l := listen(t, 2)
	o := transcribe.Options{Language: "en", Temperatures: []float32{0}, MeanLogprob: -100, Compression: 100, Words: true}
	r, err := transcribe.Transcribe(t.Context(), l, l.v, sound(5*transcribe.Rate/2), o)
	if err != nil || len(r.Segments) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	before := 0.0
	for _, s := range r.Segments {
		text := ""
		for _, w := range s.Words {
			if text += w.Text; w.Start > w.End || w.End > r.Duration+0.02 || w.Start < 0 {
				t.Errorf("%+v of a sound of %v seconds, after %v", w, r.Duration, before)
			}
		}
		if text != s.Text && !strings.Contains(s.Text, "\uFFFD") {
			t.Errorf("words %q of the text %q", text, s.Text)
		}
		if n := len(s.Words); n > 0 && (s.Start != s.Words[0].Start || s.End != s.Words[n-1].End) && s.End-s.Start < 0.5 {
			t.Errorf("a segment from %v to %v, of words %+v", s.Start, s.End, s.Words)
		}
		before = s.End
	}
	if r, err := transcribe.Transcribe(t.Context(), l, l.v, sound(transcribe.Rate/100), o); err != nil || r.Duration != 0.01 {
		t.Errorf("a hundredth of a second: %+v, %v", r, err)
	}
	if _, err := transcribe.Transcribe(t.Context(), deaf{l}, l.v, sound(transcribe.Rate), o); !errors.Is(err, transcribe.ErrWords) {
		t.Errorf("a model that does not align: %v", err)
	}
}

// deaf is a model that does not tell what it attends to.
type deaf struct{ transcribe.Model }
