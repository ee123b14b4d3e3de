package engine

import (
	"bytes"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/kvcache"
)

// in2Places is a device of two places with two threads each.
func in2Places(t *testing.T) *Device {
	return deviceOf(t, DeviceConfig{Threads: 4, Place: inPlaces(2, 2), Budget: testBudget()})
}

// dividedGroups returns how many groups of keys and values of an engine are divided among places.
func dividedGroups(e *Engine) (n int) {
	for i := range e.kv.Layout() {
		if e.kv.Units(i).Places > 1 {
			n++
		}
	}
	return n
}

// Keys and values that are divided among two places are found by all that works on them: the text is that of one place, a
// slot file has the same bytes, and what one has written to a file or a disk cache the other goes on from.
func TestKVInPlaces(t *testing.T) {
	t.Parallel()
	for name, groups := range map[string]int{"gemma3": 2, "qwen2": 1, "deepseek2": 0, "falcon-h1": 1, "gpt-oss": 2} {
		models(t, func(t *testing.T, path string) {
			dir := t.TempDir()
			c := Config{Sequences: 2, Batch: 40, Ctx: 400}
			one := diskLoop(t, path, dir, c)
			prompt := randomIDs(one.e, 1, 150)
			_, said := ask(t, one, greedyRequest(prompt, 30))
			turn := slices.Concat(prompt, said, randomIDs(one.e, 2, 9))
			var files [2]bytes.Buffer
			if _, err := one.SaveText(turn, nil, "", &files[0]); err != nil {
				t.Fatal(err)
			}
			_, want := ask(t, one, greedyRequest(turn, 30))
			one.Close()

			c.Device = in2Places(t)
			two := openLoop(t, path, c, LoopConfig{})
			if n := dividedGroups(two.e); n != groups {
				t.Errorf("%d groups are in two places, want %d", n, groups)
			}
			if _, got := ask(t, two, greedyRequest(prompt, 30)); !slices.Equal(got, said) {
				t.Errorf("in two places %v, in one %v", got, said)
			}
			if _, err := two.SaveText(turn, nil, "", &files[1]); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
				t.Error("a slot file of two places has other bytes")
			}
			fresh := openLoop(t, path, c, LoopConfig{})
			f, err := fresh.RestoreText("", &files[0])
			if err != nil {
				t.Fatal(err)
			}
			if u, got := ask(t, fresh, greedyRequest(turn, 30)); !slices.Equal(got, want) || u.CachedTokens != f.Tokens {
				t.Errorf("from a file: %v after %d of %d tokens, want %v", got, u.CachedTokens, f.Tokens, want)
			}
			disk := diskLoop(t, path, dir, c)
			if u, got := ask(t, disk, greedyRequest(turn, 30)); !slices.Equal(got, want) || u.CachedTokens == 0 {
				t.Errorf("from disk: %v after %d tokens, want %v", got, u.CachedTokens, want)
			}
		}, name)
	}
}

// The same of what moves: shifted contexts, and blocks that age.
func TestKVMovesInPlaces(t *testing.T) {
	t.Parallel()
	models(t, func(t *testing.T, path string) {
		for what, c := range map[string]Config{
			"shifted": {Ctx: 150, Shift: true}, "aged": {Ctx: 500, Tiers: tiersOf(t, "64:i16,128:q8_0,*:q4_0")},
			"in codes": {Ctx: 500, KV: kvcache.Types{K: kvcache.Q4, V: kvcache.Q4}},
		} {
			e := open(t, path, c)
			p := likeliest(randomIDs(e, 1, 140), 200)
			want, _ := shiftAlone(t, e, p)
			c.Device = in2Places(t)
			placed := open(t, path, c)
			if dividedGroups(placed) == 0 {
				t.Fatal("no keys and values are in two places")
			}
			if got, _ := shiftAlone(t, placed, p); !slices.Equal(got, want) {
				t.Errorf("%s: in two places %v, in one %v", what, got, want)
			}
		}
	}, "gemma3", "qwen2")
}
