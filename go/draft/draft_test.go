package draft

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A match is the longest of those that are looked at, and is what it says.
func TestFind(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHistory(256)
		var all []int32
		for range rng.IntN(700) {
			id := rng.Int32N(4)
			if rng.IntN(40) == 0 {
				id = gap
			}
			h.push(id)
			all = append(all, id)
		}
		tail := make([]int32, rng.IntN(maxMatch+1))
		for i := range tail {
			tail[i] = rng.Int32N(4)
		}
		m := h.find(tail, rng.IntN(300)-20)
		longest := 0
		for pos := max(len(all)-256, 0); pos+1 < len(all); pos++ {
			n := 0
			for n < len(tail) && pos-n >= max(len(all)-256, 0) && all[pos-n] == tail[len(tail)-1-n] {
				n++
			}
			if n >= leastMatch && all[pos+1] != gap {
				longest = max(longest, n)
			}
			if m.length > 0 && m.pos == pos && n != m.length {
				t.Fatalf("seed %d: %+v at a place where %d tokens are the same", seed, m, n)
			}
		}
		if m.length > longest || m.length == 0 && longest >= 6 {
			t.Fatalf("seed %d: %+v, the longest has %d", seed, m, longest)
		}
		if m.length > 0 && h.after(m) != all[m.pos+1] {
			t.Fatalf("seed %d: after %+v comes %d, want %d", seed, m, h.after(m), all[m.pos+1])
		}
	}
}

// The place with most of the text before it is found, however often its last tokens occurred since, and a text that goes on as
// there is followed where others are as good.
func TestFindsFarBack(t *testing.T) {
	once := random(1, 60)
	text := slices.Clone(once)
	for i := range 100 { // the last two, and then the last five, before something else
		text = slices.Concat(text, random(uint64(10+i), 3), once[28:30], random(uint64(200+i), 3), once[25:30])
	}
	h := newHistory(1 << 12)
	for _, id := range text {
		h.push(id)
	}
	if m := h.find(once[10:30], -1); m.pos != 29 || m.length != 20 {
		t.Errorf("%+v, want 20 tokens at 29", m)
	}
	d := NewLibrary().New(Defaults, "")
	d.Accept(slices.Concat(text, random(5, 1), once[:30]))
	if got := ids(d.Draft(nil, slices.Concat(text, random(5, 1), once[:30]), nil)); !slices.Equal(got, once[30:46]) {
		t.Errorf("guesses %v, want %v", got, once[30:46])
	}

	// Two places have all the tokens that are looked for. The first is what the text goes on from.
	same := random(2, 40)
	text = slices.Concat(random(3, 10), same, []int32{1001, 1002, 1003}, random(4, 10), same, []int32{1004, 1005})
	h = newHistory(1 << 12)
	for _, id := range text {
		h.push(id)
	}
	if m := h.find(same[40-maxMatch:], 49); m.pos != 49 || h.after(m) != 1001 {
		t.Errorf("%+v, want that at 49, which has gone on", m)
	}
	if m := h.find(same[40-maxMatch:], -1); h.after(m) != 1004 {
		t.Errorf("%+v, want the latest", m)
	}
}

func random(seed uint64, n int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 2))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(1000)
	}
	return ids
}

func ids(guesses []Guess) (list []int32) {
	for _, g := range guesses {
		list = append(list, g.ID)
	}
	return list
}

// A text that repeats itself is guessed, with chances that rise as guesses turn out to be right.
func TestRepetition(t *testing.T) {
	once := random(1, 60)
	text := slices.Concat(once, random(2, 30), once[:20])
	d := NewLibrary().New(Defaults, "")
	d.Accept(text)
	got := d.Draft(nil, text, nil)
	if want := once[20:36]; !slices.Equal(ids(got), want) {
		t.Errorf("guesses %v, want %v", ids(got), want)
	}
	before := got[0].Chance
	for n := 20; n < 50; n++ {
		text = append(text, once[n])
		d.Accept(text)
	}
	if got = d.Draft(nil, text, nil); got[0].Chance < before || got[0].Source != NGram {
		t.Errorf("after 30 right ones the chance is %v, it was %v", got[0].Chance, before)
	}
	if got := d.Draft(nil, text, once[50:53]); !slices.Equal(ids(got), once[53:min(53+13, 60)]) && !slices.Equal(ids(got)[:7], once[53:60]) {
		t.Errorf("after three that are forced %v, want %v", ids(got), once[53:])
	}
	loop := slices.Repeat([]int32{5, 6, 7}, 10)
	d = NewLibrary().New(Options{Sources: All, Max: 8}, "")
	d.Accept(loop)
	if got := ids(d.Draft(nil, loop, nil)); !slices.Equal(got, []int32{5, 6, 7, 5, 6, 7, 5, 6}) {
		t.Errorf("what repeats goes on with %v", got)
	}
}

// What is wrong again and again is soon unlikely, in this text and then in others.
func TestUnlikely(t *testing.T) {
	lib := NewLibrary()
	rng := rand.New(rand.NewPCG(1, 1))
	var text []int32
	d := lib.New(Defaults, "")
	worst := 0.0
	for n := range 2000 {
		text = append(text, rng.Int32N(12)) // every pair has been seen, and says nothing
		d.Accept(text)
		if got := d.Draft(nil, text, nil); n > 500 && len(got) > 0 {
			worst = max(worst, got[0].Chance)
		}
	}
	if worst > 0.35 {
		t.Errorf("a random text has guesses of chance %.2f", worst)
	}
}

// Recent texts are guessed from in their namespace, and there alone; memory of them is bounded.
func TestRecent(t *testing.T) {
	lib := NewLibrary()
	answer := random(3, 100)
	lib.Keep("one", answer)
	for name, want := range map[string]bool{"one": true, "two": false} {
		text := slices.Concat(random(4, 50), answer[:10])
		d := lib.New(Defaults, name)
		d.Accept(text)
		got := d.Draft(nil, text, nil)
		if (len(got) > 0) != want || want && (got[0].Source != Recent || !slices.Equal(ids(got), answer[10:26])) {
			t.Errorf("namespace %s: %v", name, got)
		}
	}
	for i := range 3 * shelfTokens / 1000 {
		lib.Keep("one", random(uint64(i), 1000))
	}
	if h := lib.shelf("one"); len(h.ids) > shelfTokens {
		t.Errorf("%d tokens are kept", len(h.ids))
	}
	for i := range 100 {
		lib.Keep(string(rune('a'+i)), answer)
	}
	if len(lib.shelves) > maxShelves {
		t.Errorf("%d namespaces are kept", len(lib.shelves))
	}
	// A drafter whose namespace was forgotten, or written over, goes on.
	text := slices.Concat(random(4, 50), answer[:10])
	d := lib.New(Defaults, "one")
	d.Accept(text)
	for i := range 100 {
		lib.Keep("one", random(uint64(i), 1000))
	}
	d.Draft(nil, text, nil)
}

func TestLimits(t *testing.T) {
	text := slices.Repeat(random(1, 50), 2)[:80]
	for _, o := range []Options{{}, {Sources: All}, {Max: 5}, {Sources: All, Max: 5}, {Sources: All, Max: 5, Min: 6}, {Sources: All, Max: 5, MinChance: 1}, {Sources: All, Max: 1000}} {
		d := NewLibrary().New(o, "")
		d.Accept(text)
		got := len(d.Draft(nil, text, nil))
		want := 0
		if o.Sources != 0 && o.MinChance == 0 && o.Min <= o.Max {
			want = min(o.Max, 20)
		}
		if got < min(want, 5) || got > max(min(o.Max, MaxGuesses), 0) || want == 0 && got > 0 {
			t.Errorf("%+v: %d guesses", o, got)
		}
		if n := len(d.Draft(nil, text, random(2, o.Max))); n > 0 {
			t.Errorf("%+v: %d guesses after as many forced tokens as there may be", o, n)
		}
	}
}

func TestParseSet(t *testing.T) {
	for text, want := range map[string]string{
		"auto": "auto", "off": "off", "none": "off", "ngram": "ngram", "ngram,recent": "ngram,recent", "ngram-simple": "ngram",
		"ngram-map-k": "ngram", "ngram-map-k4v": "ngram", "ngram-cache": "ngram,recent", "draft-simple": "model", "draft-eagle3": "head", "draft-dflash": "head",
		"draft-mtp": "mtp,head", "head,model,mtp,recent,ngram": "auto", "ngram-mod": "ngram,recent", "NGram, recent": "ngram,recent", "": "", "grammar": "", "replay": "", "no such": "",
	} {
		got, err := ParseSet(text)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

func TestRecording(t *testing.T) {
	text := random(1, 10_000)
	r := Recording{Text: text, Right: 0.7, Seed: 1}
	got := r.guess(nil, 0, len(text)+5)
	right := 0
	for i, g := range got {
		if g.ID == text[i] {
			right++
		}
	}
	if len(got) != len(text) || right < 6800 || right > 7200 {
		t.Errorf("%d guesses of %d tokens, %d of them right", len(got), len(text), right)
	}
	if !slices.Equal(r.guess(nil, 100, 5), got[100:105]) {
		t.Error("the same place has other guesses")
	}
}

// A Judge bears what is no probability.
func TestJudgeOfNoProbability(t *testing.T) {
	j := NewLibrary().Judge(Model)
	inf := float32(math.Inf(1))
	for i, p := range []float32{inf, -inf, inf - inf, -1, 2} {
		if c := j.Chance(p); !(c >= 0 && c <= 1) {
			t.Errorf("the chance of a guess of probability %v is %v", p, c)
		}
		j.Guess(1+i, 7, p)
	}
	j.Accept([]int32{1, 7, 7, 7, 7, 7, 7})
}

// listOf returns a list of guesses with these places before them, and chances.
func listOf(before []int, chances ...float64) (list []Guess) {
	for i, b := range before {
		list = append(list, Guess{ID: int32(i), Chance: chances[i], Back: i - 1 - b})
	}
	return list
}

// texts are the ids of each guess of a list, from the first before it.
func texts(list []Guess) (all [][]int32) {
	for i := range list {
		text := []int32{list[i].ID}
		if b := Before(list, i); b >= 0 {
			text = append(slices.Clone(all[b]), text...)
		}
		all = append(all, text)
	}
	return all
}

// What is kept of a tree follows the same as before, and what follows something else that is not kept goes with it.
func TestKeepAndBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var before []int
		var chances []float64
		for i := range rng.IntN(12) {
			before, chances = append(before, rng.IntN(i+1)-1), append(chances, rng.Float64())
		}
		list := listOf(before, chances...)
		all := texts(list)
		keep := make([]bool, len(list))
		for i := range keep {
			keep[i] = rng.IntN(3) > 0
		}
		var want [][]int32
		for _, text := range all {
			if !slices.ContainsFunc(text, func(id int32) bool { return !keep[id] }) {
				want = append(want, text)
			}
		}
		if got := texts(Keep(list, func(i int) bool { return keep[i] })); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%v, kept %v: %v, want %v", all, keep, got, want)
		}
		ordered := Ordered(list)
		got := texts(ordered)
		slices.SortFunc(got, slices.Compare)
		want = slices.Clone(all)
		slices.SortFunc(want, slices.Compare)
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%v in order: %v", all, texts(ordered))
		}
		for i := range ordered {
			for j := range i {
				if Before(ordered, i) == Before(ordered, j) && ordered[i].Chance > ordered[j].Chance {
					t.Fatalf("%+v: %d comes after %d", ordered, i, j)
				}
			}
		}
		reach := func(text []int32) float64 {
			p := 1.0
			for _, id := range text {
				p *= chances[id]
			}
			return p
		}
		most := rng.IntN(len(list) + 2)
		best := texts(Best(list, most))
		if len(best) != min(most, len(list)) {
			t.Fatalf("%d guesses of %d, want at most %d", len(best), len(list), most)
		}
		for _, text := range all {
			in := slices.ContainsFunc(best, func(b []int32) bool { return slices.Equal(b, text) })
			for _, b := range best {
				if !in && reach(text) > reach(b) {
					t.Fatalf("%v is left out, and %v is not", text, b)
				}
			}
		}
	}
}

// Where places disagree about the next token, what follows at the second is guessed beside what follows at the first, as often as that turns out
// to be right.
func TestRivals(t *testing.T) {
	// After 1 2 3 comes 4 5 6 or 7 8 9, by turns that are not told from the text.
	rng := rand.New(rand.NewPCG(4, 4))
	lib := NewLibrary()
	d := lib.New(Defaults, "")
	var text []int32
	for range 300 {
		text = append(text, 100+rng.Int32N(800), 1, 2, 3)
		d.Accept(text)
		if rng.IntN(2) == 0 {
			text = append(text, 4, 5, 6)
		} else {
			text = append(text, 7, 8, 9)
		}
		d.Accept(text)
	}
	text = append(text, 1000, 1, 2, 3)
	d.Accept(text)
	list := d.Draft(nil, text, nil)
	all := texts(list)
	has := func(ids ...int32) bool {
		return slices.ContainsFunc(all, func(t []int32) bool { return slices.Equal(t, ids) })
	}
	if !has(4, 5, 6) || !has(7, 8, 9) || len(list) > Defaults.Max {
		t.Fatalf("%v of %v", all, list)
	}
	i := slices.IndexFunc(list, func(g Guess) bool { return g.Back > 0 })
	if first, second := list[0].Chance, list[i].Chance; first < 0.3 || second < 0.25 || first+second > 1 {
		t.Errorf("chances %.2f and %.2f, want about a half each", first, second)
	}
	small := lib.New(Options{Sources: All, Max: 4}, "")
	small.Accept(text)
	if list := small.Draft(nil, text, nil); len(list) != 4 || list[3].Back == 0 {
		t.Errorf("of four guesses the last is no second one: %+v", list)
	}
	for _, o := range []Options{{Sources: All, Max: 1}, {Sources: All, Max: 3}, {Sources: All, Max: 16, Min: 16}, {Sources: All, Max: 16, MinChance: 0.9}} {
		d := lib.New(o, "")
		d.Accept(text)
		for _, g := range d.Draft(nil, text, nil) {
			if g.Back > 0 {
				t.Errorf("%+v: %+v", o, g)
			}
		}
	}
}

// A match knows the place with most of the text before it of those with something else after them.
func TestFindsRivals(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHistory(256)
		var all []int32
		for range rng.IntN(40) {
			all = append(all, rng.Int32N(3))
			h.push(all[len(all)-1])
		}
		tail := make([]int32, 2+rng.IntN(5))
		for i := range tail {
			tail[i] = rng.Int32N(3)
		}
		m := h.find(tail, rng.IntN(60)-20)
		if m.rival.length == 0 {
			continue
		}
		if m.length < m.rival.length || h.after(m) == h.at(m.rival.pos+1) || h.common(tail, m.rival.pos) != m.rival.length {
			t.Fatalf("seed %d: %v after %v: %+v", seed, tail, all, m)
		}
	}
}

// The second guess at a token is judged where the first is wrong.
func TestJudgeOfRivals(t *testing.T) {
	lib := NewLibrary()
	j := lib.Judge(Model)
	text := []int32{1}
	for i := range 400 {
		j.Guess(len(text), 5, 0.5)
		j.Rival(6, 0.9)
		text = append(text, []int32{5, 6, 5, 7}[i%4]) // of what is not 5, half is 6
		j.Accept(text)
	}
	if p := j.RivalChance(0.9); p < 0.4 || p > 0.6 {
		t.Errorf("the chance of a second guess is %.2f, want about 0.5", p)
	}
	if p := lib.Judge(Model).RivalChance(0.9); p < 0.4 || p > 0.65 {
		t.Errorf("in another text it is %.2f", p)
	}
	if p := j.Chance(0.5); p < 0.4 || p > 0.6 {
		t.Errorf("the chance of a first guess is %.2f, want about 0.5", p)
	}
}

func TestRecordingOfRivals(t *testing.T) {
	text := random(1, 4000)
	r := Recording{Text: text, Right: 0.4, Rival: 0.5, Seed: 1}
	var first, second, wrong int
	for from := range len(text) - 20 {
		list := r.guess(nil, from, 12)
		if len(list) != 12 {
			t.Fatalf("%d guesses, want 12", len(list))
		}
		at := len(list) - rivalDepth
		if Before(list, at) != -1 || Before(list, at+1) != 0 || Before(list, at+2) != 1 {
			t.Fatalf("%+v", list)
		}
		switch text[from] {
		case list[0].ID:
			first++
		case list[at].ID:
			second++
		default:
			wrong++
		}
	}
	if n := float64(first + second + wrong); math.Abs(float64(first)/n-0.4) > 0.05 || math.Abs(float64(second)/n-0.3) > 0.05 {
		t.Errorf("%d first, %d second, %d wrong", first, second, wrong)
	}
}
