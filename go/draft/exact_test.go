package draft

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The place that is found is, of all where the last tokens occur, the latest of those with the most of the text before it; and
// all of them say whether they predict the same. Tried one by one.
func TestFindByDefinition(t *testing.T) {
	rivals, denied := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		h := newHistory(256)
		var all []int32
		for range rng.IntN(60) {
			id := rng.Int32N(5)
			if rng.IntN(15) == 0 {
				id = gap
			}
			all = append(all, id)
			h.push(id)
		}
		tail := make([]int32, rng.IntN(12))
		for i := range tail {
			tail[i] = rng.Int32N(5)
		}
		if len(all) > 12 && rng.IntN(2) == 0 {
			at := rng.IntN(len(all) - 12)
			tail = slices.Clone(all[at : at+len(tail)])
		}
		if slices.Contains(tail, gap) {
			continue
		}
		common := func(pos int) (n int) {
			for n < len(tail) && pos-n >= 0 && all[pos-n] == tail[len(tail)-1-n] {
				n++
			}
			return n
		}
		places := func(least int) (list []place) {
			for pos := len(all) - 2; pos >= 0; pos-- {
				if n := common(pos); n >= least && len(tail) >= least && all[pos+1] != gap {
					list = append(list, place{pos, n})
				}
			}
			return list
		}
		list := places(longTail)
		if len(list) == 0 {
			list = places(leastMatch)
		}
		if len(list) > 8 {
			continue // more than are looked at
		}
		var want match
		next := map[int32]bool{}
		for _, p := range list {
			if p.length > want.length {
				want.place = p
			}
			next[all[p.pos+1]] = true
		}
		switch {
		case len(list) > 1 && len(next) == 1:
			want.others = agree
		case len(list) > 1:
			want.others = deny
			denied++
		}
		got := h.find(tail, -1)
		if got.place != want.place || got.others != want.others {
			t.Fatalf("seed %d: %v after %v: %+v, want %+v of %v", seed, tail, all, got, want, list)
		}
		if len(list) == 2 { // the other one, if another token follows it
			var rival place
			for _, p := range list {
				if all[p.pos+1] != all[max(want.pos+1, 0)] {
					rival = p
					rivals++
				}
			}
			if got.rival != rival {
				t.Fatalf("seed %d: %v after %v: the rival is %+v, want %+v", seed, tail, all, got.rival, rival)
			}
		}
		on := rng.IntN(70) - 5 // where the text went on from before
		with := h.find(tail, on)
		n := 0
		if on >= 0 && on+1 < len(all) && all[on+1] != gap {
			n = common(on)
		}
		if n >= leastMatch && n > got.length {
			got.place = place{on, n}
		}
		if with.place != got.place {
			t.Fatalf("seed %d: %v after %v, on from %d: %+v, want %+v", seed, tail, all, on, with.place, got.place)
		}
	}
	if rivals < 20 || denied < 20 {
		t.Errorf("%d rivals, %d places that deny: the test does not test that", rivals, denied)
	}
}

// A text that goes on as at an earlier place is followed there, though the last tokens occurred later too.
func TestGoesOnWhereItWas(t *testing.T) {
	same := random(2, 40)
	first, second := []int32{2001, 2002, 2003}, []int32{3001, 3002, 3003}
	text := slices.Concat(first, same, []int32{1001, 1002, 1003}, random(3, 10), second, same, []int32{1004, 1005, 1006}, random(4, 10), first, same)
	d := NewLibrary().New(Options{Sources: All, Max: 3}, "")
	for n := 1; n <= len(text); n++ {
		d.Accept(text[:n])
	}
	if got := ids(d.Draft(nil, text, nil)); !slices.Equal(got, []int32{1001, 1002, 1003}) {
		t.Errorf("the text goes on with %v", got)
	}
}

// Forced tokens are part of the text that is looked for, one or many, in a short text or a long one.
func TestAfterForced(t *testing.T) {
	text := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2}
	d := NewLibrary().New(Options{Sources: All, Max: 5}, "")
	d.Accept(text)
	for n := range 5 {
		want := slices.Clone(text[2+n : min(7, 9)])
		if got := ids(d.Draft(nil, text, text[2:2+n])); !slices.Equal(got, want) {
			t.Errorf("after %v is forced: %v, want %v", text[2:2+n], got, want)
		}
	}
	if got := ids(d.Draft(nil, text, []int32{5})); len(got) > 0 && got[0] == 3 {
		t.Errorf("after another token is forced: %v", got)
	}
	if got := ids(d.Draft(nil, text, []int32{4, 5})); !slices.Equal(got, []int32{6, 7, 8}) {
		t.Errorf("after two others are forced: %v", got)
	}
	long := slices.Concat(random(5, 100), random(5, 50))
	d = NewLibrary().New(Options{Sources: All, Max: 4}, "")
	d.Accept(long)
	if got, want := ids(d.Draft(nil, long, long[50:51])), long[51:54]; !slices.Equal(got, want) {
		t.Errorf("in a long text after one is forced: %v, want %v", got, want)
	}
	if got := d.Draft([]Guess{{ID: 7}}, long, nil); len(got) != 5 || got[0].ID != 7 {
		t.Errorf("guesses are appended: %+v", got)
	}
}

// What a text begins with was written by others: it is learned, and does not count. What follows does, whatever the token; where
// the first guess is wrong, the second does too.
func TestWhatCounts(t *testing.T) {
	total := func(r *record) (n float64) {
		for _, y := range r {
			n += y.all
		}
		return n
	}
	l := NewLibrary()
	d := l.New(Options{Sources: All, Max: 5}, "")
	text := slices.Repeat([]int32{0, 1, 2}, 10)
	if d.Accept(text); total(&l.records[NGram]) != 0 {
		t.Errorf("%v guesses of a prompt are judged", total(&l.records[NGram]))
	}
	text = append(text, 0)
	if d.Accept(text); total(&l.records[NGram]) != 1 {
		t.Errorf("%v guesses of token 0 are judged", total(&l.records[NGram]))
	}
	l = NewLibrary()
	d = l.New(Options{Sources: All, Max: 5}, "")
	text = []int32{9, 1, 2, 5, 8, 1, 2, 6, 7, 1, 2} // 6 comes next, or 5
	d.Accept(text)
	own := &d.lookups[0]
	if own.guessed != 6 || own.rival != 5 {
		t.Fatalf("guesses are %d and %d", own.guessed, own.rival)
	}
	d.Accept(append(text, 5))
	if total(&l.rivals[NGram]) != 1 || own.beside.tally.all != 1 || own.beside.tally.right != 1 || own.mine.tally.right != 0 {
		t.Errorf("%v second guesses are judged, %+v in the text", total(&l.rivals[NGram]), own.beside.tally)
	}
}

// Guesses are as many as may be and no fewer than must be, and none where more is forced.
func TestHowMany(t *testing.T) {
	text := slices.Repeat(random(1, 50), 2)[:80]
	for _, c := range []struct{ most, least, forced, want int }{{5, 5, 0, 5}, {5, 6, 0, 0}, {5, 5, 2, 3}, {5, 0, 5, 0}, {5, 0, 8, 0}, {31, 20, 0, 20}, {31, 21, 0, 20}} {
		d := NewLibrary().New(Options{Sources: Set(1 << NGram), Max: c.most, Min: c.least}, "")
		d.Accept(text)
		got := len(d.Draft(nil, text, text[30:30+c.forced]))
		if c.most == 31 { // as many as follow, and then what repeats
			if got < c.want {
				t.Errorf("%+v: %d guesses", c, got)
			}
		} else if got != c.want {
			t.Errorf("%+v: %d guesses", c, got)
		}
	}
}

// The class of a match by its length, and what it is worth before any was judged.
func TestKinds(t *testing.T) {
	for length, class := range map[int]int{0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 3, 6: 3, 7: 4, 9: 4, 10: 5, 15: 5, 16: 6, 24: 6} {
		prior := []float64{0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85}[class]
		for o, want := range map[others]float64{silent: prior, agree: prior, deny: prior / 2} {
			m := match{place: place{length: length}, others: o}
			if k := m.kind(); k != kind(class*3+int(o)) || k.prior() != want {
				t.Errorf("%d tokens, others %d: kind %d of chance %v, want %d and %v", length, o, k, k.prior(), class*3+int(o), want)
			}
		}
		if k := (place{length: length}).kind(); k != kind(class*3+int(deny)) {
			t.Errorf("a second guess after %d tokens is of kind %d", length, k)
		}
	}
}

// How chances follow what turned out to be right: of a kind in a text, with the rate in all texts as the prior.
func TestChances(t *testing.T) {
	var y tally
	for _, right := range []bool{true, true, false} {
		y.add(right, 0.5)
	}
	if y.all != 0.25+0.5+1 || y.right != 0.25+0.5 {
		t.Errorf("%+v, want 1.75 and 0.75", y)
	}
	if got, want := y.chance(0.5), (0.75+weight*0.5)/(1.75+weight); got != want {
		t.Errorf("a chance of %v, want %v", got, want)
	}
	var l ledger
	l.add(2, true, 0.5)
	l.add(3, false, 0.25)
	right, expected := forgetful, 0.5*forgetful+0.25
	prior := 0.4 * (right + 3) / (expected + 3)
	if got, want := l.chance(2, 0.4), (1+weight*prior)/(1+weight); math.Abs(got-want) > 1e-12 {
		t.Errorf("the chance of a kind that was right is %v, want %v", got, want)
	}
	if got, want := l.chance(4, 0.4), prior; math.Abs(got-want) > 1e-12 {
		t.Errorf("the chance of another kind is %v, want %v", got, want)
	}
	if got := l.chance(4, 0.99); got != 1 {
		t.Errorf("a prior of %v", got)
	}
}

// The kind of a guess of a model, by its probability.
func TestSureness(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		p    float32
		want kind
	}{{nan, 0}, {-1, 0}, {0, 0}, {0.001, 0}, {0.05, 1}, {0.5, 10}, {0.9, 18}, {0.96, 20}, {1, 20}, {2, 20}, {float32(math.Inf(1)), 20}, {float32(math.Inf(-1)), 0}} {
		if got := sureness(c.p); got != c.want {
			t.Errorf("probability %v is of kind %d, want %d", c.p, got, c.want)
		}
	}
}

// Guesses at positions one after another are judged together, up to the first that is wrong; its rival is judged then, and any
// token can be one. Guesses at another place begin anew.
func TestJudgeCounts(t *testing.T) {
	count := func(l *Library) (all, right, rivals, won int) {
		for k := range l.records[Model] {
			all, right = all+int(math.Round(l.records[Model][k].all)), right+int(math.Round(l.records[Model][k].right))
			rivals, won = rivals+int(math.Round(l.rivals[Model][k].all)), won+int(math.Round(l.rivals[Model][k].right))
		}
		return
	}
	for _, c := range []struct {
		text []int32
		want [4]int
	}{
		{[]int32{9, 9, 5, 6, 7}, [4]int{3, 3, 0, 0}}, {[]int32{9, 9, 5, 6}, [4]int{2, 2, 0, 0}}, {[]int32{9, 9, 5, 8, 7}, [4]int{2, 1, 1, 0}},
		{[]int32{9, 9, 5, 0, 7}, [4]int{2, 1, 1, 1}}, {[]int32{9, 9, 4, 6, 7}, [4]int{1, 0, 0, 0}}, {[]int32{9, 9}, [4]int{0, 0, 0, 0}}, {nil, [4]int{0, 0, 0, 0}},
	} {
		l := NewLibrary()
		j := l.Judge(Model)
		j.Rival(1, 0.5) // of nothing
		j.Guess(2, 5, 0.3)
		j.Guess(3, 6, 0.6)
		j.Rival(0, 0.5)
		j.Guess(4, 7, 0.9)
		j.Accept(c.text)
		all, right, rivals, won := count(l)
		if got := [4]int{all, right, rivals, won}; got != c.want {
			t.Errorf("%v: judged, right, rivals and right of these are %v, want %v", c.text, got, c.want)
		}
		j.Accept([]int32{9, 9, 5, 6, 7}) // they were judged
		if again, _, _, _ := count(l); again != all {
			t.Errorf("%v: guesses are judged twice", c.text)
		}
	}
	l := NewLibrary()
	j := l.Judge(Model)
	j.Guess(2, 5, 0.3)
	j.Guess(4, 7, 0.9) // elsewhere
	j.Accept([]int32{9, 9, 5, 6, 7})
	if all, right, _, _ := count(l); all != 1 || right != 1 {
		t.Errorf("%d are judged after a jump, %d right", all, right)
	}
	if got := NewLibrary().Judge(Head).Expected(); math.Abs(got-0.7) > 1e-9 {
		t.Errorf("a guess that is not made has a chance of %v before any was judged", got)
	}
	l = NewLibrary()
	l.records[Model][3], l.records[Model][5] = tally{5, 10}, tally{4, 8}
	if got, want := l.Judge(Model).Expected(), (9+weight*0.7)/(18+weight); math.Abs(got-want) > 1e-9 {
		t.Errorf("a guess of a source that was right 9 times of 18 has a chance of %v in a new text, want %v", got, want)
	}
	for range 1000 {
		l.records[Model].add(3, false)
		l.records[Model].add(5, false)
	}
	if got := l.Judge(Model).Expected(); math.Abs(got-0.3) > 1e-9 {
		t.Errorf("a guess of a source that is always wrong has a chance of %v in a new text", got)
	}
}

// Of more namespaces than are kept, the one that was used longest ago is dropped; texts that are too short are not kept, and of
// long ones the end is.
func TestLibraryKeeps(t *testing.T) {
	l := NewLibrary()
	for i := range maxShelves {
		l.Keep(fmt.Sprint(i), random(uint64(i), leastText))
	}
	l.New(Defaults, "0")
	l.Keep("new", random(1, leastText))
	for i := range maxShelves {
		if (l.shelves[fmt.Sprint(i)] != nil) != (i != 1) {
			t.Errorf("namespace %d is kept: %v", i, l.shelves[fmt.Sprint(i)] != nil)
		}
	}
	if l.shelves["new"] == nil || len(l.shelves) != maxShelves {
		t.Errorf("%d namespaces", len(l.shelves))
	}
	l = NewLibrary()
	l.Keep("", random(1, leastText-1))
	if len(l.shelves) != 0 {
		t.Error("a short text is kept")
	}
	l.Keep("", random(1, leastText))
	if h := l.shelf(""); h.n != leastText+1 || h.at(h.n-1) != gap || h.at(0) != random(1, leastText)[0] {
		t.Errorf("%d tokens of a text of %d", h.n, leastText)
	}
	long := random(2, shelfTokens/2+10)
	l = NewLibrary()
	l.Keep("", long)
	if h := l.shelf(""); h.n != shelfTokens/2+1 || h.at(0) != long[10] {
		t.Errorf("%d tokens of a long text, from %d on", h.n, h.at(0))
	}
}

// A history keeps its last tokens, a power of two of them, and says what it takes.
func TestHistoryKeepsTheLast(t *testing.T) {
	h := newHistory(1024)
	for i := range 5000 {
		h.push(int32(i))
		size := firstTokens
		for size < i+1 && size < 1024 {
			size *= 2
		}
		if len(h.ids) != size || !h.has(i) || h.has(i+1) || h.has(-1) || h.at(i) != int32(i) || h.has(i-size) || i >= size && !h.has(i-size+1) {
			t.Fatalf("after %d tokens: a ring of %d", i+1, len(h.ids))
		}
	}
	for tokens, want := range map[int]int{0: 256, 1: 256, 256: 256, 257: 512, 512: 512, 1 << 17: 1 << 17} {
		if got := historyBytes(tokens); got != 20*want {
			t.Errorf("%d tokens take %d bytes, want %d", tokens, got, 20*want)
		}
	}
	if Bytes(1<<20) != historyBytes(maxOwn) || Bytes(1000) != historyBytes(1000) {
		t.Errorf("a drafter takes %d and %d bytes", Bytes(1<<20), Bytes(1000))
	}
}

// Which guesses of a recording are right is decided by SplitMix64, whose first numbers of seed 0 are known: 0.8833, 0.4315,
// 0.0264 and 0.9709.
func TestRecordingIsSplitMix(t *testing.T) {
	for pos, x := range []float64{0.8833108082136426, 0.43152799704850997, 0.026433771592597743, 0.9708819781538285} {
		for right, want := range map[float64]bool{x - 1e-11: false, x + 1e-11: true, 0: false, 1: true} {
			r := Recording{Right: right}
			if r.IsRight(pos) != want {
				t.Errorf("token %d with chance %v: right %v", pos, right, !want)
			}
		}
	}
}

// A recording with second guesses has one for each of the first three tokens, and fewer first ones for them.
func TestRecordingRoom(t *testing.T) {
	text := random(3, 50)
	for _, c := range []struct{ from, n, first, second int }{
		{0, 12, 9, 3}, {0, 6, 3, 3}, {0, 5, 3, 2}, {0, 4, 2, 2}, {0, 3, 2, 1}, {0, 2, 1, 1}, {0, 1, 1, 0}, {0, 0, 0, 0}, {45, 12, 5, 3}, {48, 12, 2, 2}, {49, 12, 1, 1}, {50, 12, 0, 0}, {60, 12, 0, 0},
	} {
		r := Recording{Text: text, Right: 1, Rival: 0.5}
		list := r.guess(nil, c.from, c.n)
		if more := r.guess(make([]Guess, 5), c.from, c.n); !slices.Equal(more[5:], list) {
			t.Errorf("%+v: after other guesses there are %+v, want %+v", c, more[5:], list)
		}
		second := 0
		for i, g := range list {
			if i >= c.first {
				second++
				if want := i - c.first - 1; Before(list, i) != want || g.Chance != 0 || g.ID != text[c.from+i-c.first]^2 {
					t.Errorf("%+v: guess %d is %+v after %d, want after %d", c, i, g, Before(list, i), want)
				}
			} else if g.Back != 0 || g.Chance != 1 || g.Source != Replay || g.ID != text[c.from+i] {
				t.Errorf("%+v: guess %d is %+v", c, i, g)
			}
		}
		if len(list) != c.first+c.second || second != c.second {
			t.Errorf("%+v: %d guesses, %d of them second ones", c, len(list), second)
		}
	}
	none := Recording{Text: text, Right: 1}
	if got := none.guess(nil, 0, 12); len(got) != 12 {
		t.Errorf("%d guesses without second ones", len(got))
	}
}

// Counts of several texts add up, by source.
func TestCounts(t *testing.T) {
	var a, b Counts
	a[NGram].Guessed, a[NGram].Right, b[NGram].Guessed, b[Model].Guessed, b[Model].Right = 5, 3, 2, 7, 4
	sum := a.Plus(b)
	guessed, right := sum.Total()
	if sum[NGram].Guessed != 7 || sum[NGram].Right != 3 || sum[Model].Guessed != 7 || sum[Model].Right != 4 || guessed != 14 || right != 7 || a[NGram].Guessed != 5 {
		t.Errorf("%+v, %d guessed, %d right", sum, guessed, right)
	}
}

// A record goes on after what is forced, and tokens of the text count from the text's beginning.
func TestRecordingAfterForced(t *testing.T) {
	text := random(8, 40)
	d := NewLibrary().New(Options{Max: 6, Record: &Recording{Text: text, Right: 1}}, "")
	for forced := range 8 {
		n := max(6-forced, 0)
		if got := ids(d.Draft(nil, text[:10], text[10:10+forced])); !slices.Equal(got, text[10+forced:10+forced+n]) {
			t.Errorf("after %d forced tokens %v, want %v", forced, got, text[10+forced:10+forced+n])
		}
	}
}

// Of the text itself and recent ones that are as likely right, the text itself is followed.
func TestOwnTextFirst(t *testing.T) {
	l := NewLibrary()
	l.Keep("n", []int32{1, 2, 3, 50, 51, 52, 53})
	text := []int32{1, 2, 3, 60, 61, 62, 1, 2, 3}
	d := l.New(Defaults, "n")
	d.Accept(text)
	if got := d.Draft(nil, text, nil); len(got) == 0 || got[0].ID != 60 || got[0].Source != NGram {
		t.Errorf("guesses %v, want 60 first, which the text itself has", got)
	}
}

// Token 0 is a token: as a second guess it counts as any other.
func TestRivalZero(t *testing.T) {
	for id := range int32(2) {
		text := slices.Concat([]int32{5, 6, 7, id, 9, 5, 6, 7, 8}, random(3, 10), []int32{5, 6, 7})
		l := NewLibrary()
		d := l.New(Defaults, "")
		for n := range text {
			d.Accept(text[:n+1])
		}
		if r := d.lookups[0].rival; r != id {
			t.Fatalf("the second guess is %d, want %d", r, id)
		}
		before := l.rivals[NGram]
		if d.Accept(append(text, id)); l.rivals[NGram] == before {
			t.Errorf("a second guess, token %d, was right and is not counted", id)
		}
	}
}
