package bench

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/draft"
)

// The interval of the median agrees with a table of the sign test.
func TestInterval(t *testing.T) {
	for n, want := range map[int][2]float64{1: {1, 1}, 3: {1, 3}, 5: {1, 5}, 6: {1, 6}, 8: {1, 8}, 9: {2, 8}, 12: {3, 10}, 20: {6, 15}} {
		var list []float64
		for i := range n {
			list = append(list, float64(n-i))
		}
		if low, high := interval(list); low != want[0] || high != want[1] {
			t.Errorf("of %d values: %g to %g, want %g to %g", n, low, high, want[0], want[1])
		}
	}
}

// Speed-ups of fixed numbers of drafts, by hand: of 8 tokens those at 2 and 5 are guessed wrong.
func TestFixedDrafts(t *testing.T) {
	record := &draft.Recording{Text: make([]int32, 100), Right: 0.75}
	pattern := func(from int) (wrong string) {
		for at := from; at < from+8; at++ {
			wrong += map[bool]string{true: ".", false: "x"}[record.IsRight(at)]
		}
		return wrong
	}
	from := 0
	for ; pattern(from) != "..x..x.."; from++ {
		if from == 80 {
			record.Seed, from = record.Seed+1, 0
		}
	}
	texts := []draft.Options{{Record: record}}
	passes := []int64{10, 12, 15}
	// With one draft: tokens 0 and 1; 2; 3 and 4; 5; 6 and 7. With two: 0, 1 and 2; 3, 4 and 5; 6 and 7, where one draft has room.
	if got, want := fixed(passes, from, 8, false, texts), []float64{1, 80. / (5 * 12), 80. / (15 + 15 + 12)}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Recurrent, with three: 0 and 1, and 2 in place of a rejected draft; 3 with all of these; 4, and 5 in place of one; 6 with these; 7.
	if got, want := fixed(append(passes, 20), from, 8, true, texts)[3], 80./(20+20+20+15+10); got != want {
		t.Errorf("%v, want %v with tokens evaluated again", got, want)
	}
}

// Rounds are kept between runs, by row.
func TestRoundsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rounds")
	a := round{Model: "m", Streams: 1, From: "replay", Chances: Chances{Right: 0.5}, Plain: 2, Draft: 1, Bound: 1, Passes: []int64{1}, Fixed: []float64{1}}
	b := a
	b.Right = 0.7
	for _, r := range []round{a, b, a} {
		if err := addRound(path, &r); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readRounds(path, &a); err != nil || len(got) != 2 || !reflect.DeepEqual(got[0], a) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := readRounds(filepath.Join(t.TempDir(), "none"), &a); err != nil || got != nil {
		t.Errorf("of no file %+v, %v", got, err)
	}
	if err := addRound("", &a); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"x", "{}", `{"plain_ns":1}`} {
		if err := os.WriteFile(path, []byte("\n"+bad+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRounds(path, &a); err == nil || !strings.Contains(err.Error(), "rounds:2: not a round") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
