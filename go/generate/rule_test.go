package generate

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/sched"
)

// A rule is a constraint: after each text come the tokens that a function names.
type rule struct {
	next  func(text []int32) []int32
	text  []int32
	err   error // why it allows nothing any more
	deny  int32 // what it refuses though its mask has it; 0: nothing
	ahead bool  // it forecasts
	back  int   // tokens that were rolled back
	masks int   // that were asked for
}

func (r *rule) Mask(next constrain.Set) {
	r.masks++
	for _, id := range r.next(r.text) {
		next.Add(id)
	}
}

func (r *rule) Accept(id int32) bool {
	if r.deny != 0 && id == r.deny || !slices.Contains(r.next(r.text), id) {
		return false
	}
	r.text = append(r.text, id)
	return true
}

func (r *rule) Rollback(n int) {
	r.text = r.text[:len(r.text)-n]
	r.back += n
}

func (r *rule) Fork() constrain.Constraint {
	f := *r
	f.text = slices.Clone(r.text)
	return &f
}

func (r *rule) Err() error { return r.err }

func (r *rule) Forecast(dst []int32) []int32 {
	text := slices.Clone(r.text)
	for r.ahead && len(dst) < 5 {
		next := r.next(text)
		if len(next) != 1 {
			break
		}
		dst, text = append(dst, next[0]), append(text, next[0])
	}
	return dst
}

// threes allows three tokens each time, one after an even token, and ends after 30.
func threes(text []int32) []int32 {
	n := int32(len(text))
	switch {
	case n == 30:
		return nil
	case n > 0 && text[n-1]%2 == 0:
		return []int32{(text[n-1] + 3) % vocab}
	}
	return []int32{n % vocab, (n + 4) % vocab, (n*n + 7) % vocab}
}

// A text that a constraint holds is the likeliest of those that it allows, with biases and without what is banned,
// whatever is guessed and however it is evaluated; the constraint knows exactly the text afterwards.
func TestAConstraintHolds(t *testing.T) {
	p := asked()["25 tokens"]
	p.MaxTokens, p.Sampling = -1, sample.Defaults()
	p.Sampling.Temp = 0
	p.Bias = []sample.Bias{{ID: 4, Value: 2.25}, {ID: 6, Value: -1.25}}
	c := Config{Ctx: 60, Banned: []int32{9}}
	var want []int32
	for text := slices.Clone(p.Prompt); ; text = append(text, want[len(want)-1]) {
		row, best := logits(text), int32(-1)
		row[4], row[6], row[9] = row[4]+2.25, row[6]-1.25, float32(math.Inf(-1))
		for id := range int32(vocab) {
			if slices.Contains(threes(want), id) && (best < 0 || row[id] > row[best]) { // of equal ones the first
				best = id
			}
		}
		if best < 0 {
			break
		}
		want = append(want, best)
	}
	fewest, back := 100, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(2, seed))
		r := &rule{next: threes, ahead: seed%2 == 0}
		p.Constraint = r
		d := drive(t, p, c)
		d.beside = func(n int) {
			if rng.IntN(2) == 0 {
				d.Prepare(min(n, len(d.Known())-d.Evaluated()+rng.IntN(3))) // or fewer: the rest is done later
			}
		}
		text, end := d.all(t, func() (int, []sched.Branch) {
			d.SetGuesses(guessTree(rng, want[min(d.Generated()+d.Forced(), len(want)):]))
			return chooseTree(rng, d.Generation)
		})
		if !slices.Equal(text, want) || end != Stopped {
			t.Fatalf("seed %d: %v, %s, want %v", seed, text, end, want)
		}
		if !slices.Equal(r.text, want) {
			t.Fatalf("seed %d: the constraint knows %v, want %v", seed, r.text, want)
		}
		fewest, back = min(fewest, d.passes), back+r.back
	}
	if fewest*2 > len(want) || back == 0 {
		t.Errorf("%d passes at least for %d tokens, %d drafts taken back", fewest, len(want), back)
	}
}

// What a constraint forecasts is drafted, up to half of the rows of a pass.
func TestForecastsAreDrafted(t *testing.T) {
	chain := func(text []int32) []int32 { return []int32{int32(len(text)+1) % vocab} }
	for rows, want := range map[int]int{32: 5, 8: 3, 2: 0, 1: 0} {
		p := asked()["25 tokens"]
		p.Constraint = &rule{next: chain, ahead: true}
		d := drive(t, p, Config{Ctx: 60})
		d.MaxRows = rows
		if d.pass(t, 5); d.Forced() != want || len(d.Guesses()) != 0 || len(d.Drafts(rows)) != want {
			t.Errorf("%d rows: %d tokens are forced, want %d", rows, d.Forced(), want)
		}
		s := d.pass(t, 1+want)
		if of := s.Drafts[draft.Forced]; int(of.Guessed) != want || int(of.Right) != want || len(s.Tokens) != want+1 {
			t.Errorf("%d rows: %d new tokens, %+v", rows, len(s.Tokens), of)
		}
	}
}

// Verified drafts are counted by their source.
func TestDraftsAreCountedBySource(t *testing.T) {
	p := asked()["25 tokens"]
	p.Sampling.Temp = 0
	want, _ := drive(t, p, Config{Ctx: 60}).all(t, func() (int, []sched.Branch) { return 100, nil })
	d := drive(t, p, Config{Ctx: 60})
	d.pass(t, 5)
	d.SetGuesses([]draft.Guess{
		{ID: want[1], Source: draft.NGram}, {ID: (want[2] + 1) % vocab, Source: draft.MTP},
		{ID: want[2], Source: draft.Model, Back: 1},
	})
	counts := d.pass(t, 3, sched.Branch{Path: []int{0, 2}, New: 1}).Drafts
	for s := range draft.Source(draft.Sources) {
		var guessed, right uint64
		switch s {
		case draft.NGram, draft.Model:
			guessed, right = 1, 1
		case draft.MTP:
			guessed = 1
		}
		if counts[s].Guessed != guessed || counts[s].Right != right {
			t.Errorf("of %v: %+v", s, counts[s])
		}
	}
}

// A text without an end that a constraint allows ends with the reason.
func TestWhyATextEnds(t *testing.T) {
	broken, inf := errors.New("too large"), float32(math.Inf(-1))
	none := func([]int32) []int32 { return nil }
	two := func([]int32) []int32 { return []int32{2, 3} }
	banAll := make([]sample.Bias, vocab)
	for i := range banAll {
		banAll[i] = sample.Bias{ID: int32(i), Value: inf}
	}
	some, both := []sample.Bias{{ID: 1, Value: -100}}, []int32{2, 3}
	flat := make([]float32, vocab)
	void := slices.Repeat([]float32{inf}, vocab)
	for name, c := range map[string]struct {
		rule   *rule
		bias   []sample.Bias
		banned []int32
		row    []float32
		finish Finish
		err    error
	}{
		"complete":                         {rule: &rule{next: none}, row: flat, finish: Stopped},
		"its constraint fails":             {rule: &rule{next: none, err: broken}, row: flat, err: broken},
		"its constraint refuses":           {rule: &rule{next: two, deny: 2}, row: flat, err: constrain.ErrLimit},
		"its constraint fails at the last": {rule: &rule{next: two, deny: 2, err: broken}, row: flat, err: broken},
		"biases ban what may come":         {rule: &rule{next: two}, bias: banAll[2:4], row: flat, err: ErrBanned},
		"biases ban some of it":            {rule: &rule{next: two}, bias: banAll[2:3], row: flat},
		"one, the model another": {
			rule: &rule{next: two}, bias: banAll[2:3], banned: both[1:], row: flat, err: ErrBanned,
		},
		"the model bans both":        {rule: &rule{next: two}, banned: both, row: flat, err: sample.ErrNoToken},
		"biases ban all":             {bias: banAll, row: flat, err: ErrBanned},
		"biases ban all but one":     {bias: banAll[1:], row: flat},
		"but one that is not likely": {bias: banAll[1:], row: void, err: sample.ErrNoToken},
		"it bans others":             {rule: &rule{next: two}, bias: some, row: void, err: sample.ErrNoToken},
		"only some bias":             {bias: some, row: void, err: sample.ErrNoToken},
	} {
		p := asked()["25 tokens"]
		p.Sampling.Temp, p.Bias = 0, c.bias
		if c.rule != nil {
			p.Constraint = c.rule
		}
		g, err := New(p, Config{Vocab: vocab, Ctx: 60, MaxRows: 32, Banned: c.banned})
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Advance(5, [][]float32{slices.Clone(c.row)})
		if s.Finish != c.finish || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: %q, %v, want %q, %v", name, s.Finish, err, c.finish, c.err)
		}
	}
}

// The log-probabilities of a token are the model's own, or those after bias, bans, constraint and samplers.
func TestLogprobs(t *testing.T) {
	p := asked()["25 tokens"]
	p.Sampling.TopK = 2
	row := logits(p.Prompt)
	for _, post := range []bool{false, true} {
		for top := -1; top <= 3; top++ {
			p.TopLogprobs, p.PostProbs = top, post
			p.Bias = []sample.Bias{{ID: 4, Value: 30}, {ID: 5, Value: 30}}
			s := drive(t, p, Config{Ctx: 60, Banned: []int32{5}}).pass(t, 5)
			own, list := sample.Logprobs(row, 4, max(top, 0))
			got := s.Tokens[0]
			switch {
			case got.ID != 4:
				t.Fatalf("token %d, want 4, which is likeliest by far", got.ID)
			case top < 0:
				if got.Logprob != (sample.Logprob{}) || got.Top != nil {
					t.Errorf("%+v, want no log-probabilities", got)
				}
			case post:
				if got.Logprob.ID != 4 || math.Abs(float64(got.Logprob.Value)) > 1e-6 || len(got.Top) > top ||
					top > 0 && got.Top[0].ID != 4 { // nothing else is likely beside it
					t.Errorf("after all, top %d: %+v", top, got)
				}
			case got.Logprob != own || !slices.Equal(got.Top, list):
				t.Errorf("top %d: %+v, want %+v and %+v", top, got, own, list)
			}
		}
	}
}

// What changes the logits, a bias, a banned token or a constraint, each alone, does not change the model's own
// log-probabilities; those after the samplers are of what these left.
func TestOwnLogprobs(t *testing.T) {
	for name, change := range map[string]func(p *Params, c *Config){
		"a bias":         func(p *Params, _ *Config) { p.Bias = []sample.Bias{{ID: 4, Value: 30}} },
		"a banned token": func(_ *Params, c *Config) { c.Banned = []int32{9} },
		"a constraint":   func(p *Params, _ *Config) { p.Constraint = &rule{next: func([]int32) []int32 { return []int32{4} }} },
	} {
		for _, post := range []bool{false, true} {
			p, c := asked()["25 tokens"], Config{Ctx: 60}
			p.Sampling.TopK, p.TopLogprobs, p.PostProbs = 1, 0, post
			change(&p, &c)
			got := drive(t, p, c).pass(t, 5).Tokens[0]
			want, _ := sample.Logprobs(logits(p.Prompt), got.ID, 0)
			if post {
				want.Value = 0 // one is left
			}
			if got.Logprob != want {
				t.Errorf("%s, after the samplers %v: %+v, want %+v", name, post, got.Logprob, want)
			}
		}
	}
}

// A text has as many tokens as it may: none, one, or to the end of its context; what is drafted is never beyond that.
func TestDraftable(t *testing.T) {
	for _, c := range []struct{ max, ctx, limit, generated, n, want int }{
		{max: -1, ctx: 60, n: 9, want: 9},
		{max: -1, ctx: 60, n: 99, want: 54},
		{max: -1, ctx: 60, limit: 59, n: 99, want: 99},
		{max: -1, ctx: 7, n: 3, want: 1},
		{max: -1, ctx: 6, n: 3, want: 0},
		{max: -1, ctx: 5, n: 3, want: 0},
		{max: 0, ctx: 60, n: 3, want: 0},
		{max: 1, ctx: 60, n: 3, want: 0},
		{max: 4, ctx: 60, n: 9, want: 3},
		{max: 4, ctx: 60, generated: 1, n: 9, want: 2},
		{max: 4, ctx: 60, generated: 3, n: 9, want: 0},
		{max: 40, ctx: 60, limit: 59, generated: 3, n: 99, want: 36},
	} {
		p := asked()["25 tokens"]
		p.MaxTokens = c.max
		d := drive(t, p, Config{Ctx: c.ctx, Shift: Shift{Limit: c.limit, By: 10}})
		for n := 5; d.Generated() < c.generated; n = 1 {
			d.pass(t, n)
		}
		if got := d.Draftable(c.n); got != c.want {
			t.Errorf("%+v: %d drafts", c, got)
		}
		if got := d.Propose(make([]int32, c.n)); got != c.want || len(d.Drafts(100)) != min(c.want, 99) {
			t.Errorf("%+v: %d tokens are proposed", c, got)
		}
		known := len(d.Known()) - d.Evaluated()
		for n := range known + c.want + 3 {
			if got := len(d.Pending(nil, n)); got != min(n, known+c.want) {
				t.Errorf("%+v: %d of %d tokens are pending", c, got, n)
			}
		}
	}
	for most, want := range map[int]int{0: 0, 1: 1, 2: 2} {
		p := asked()["25 tokens"]
		p.MaxTokens = most
		r := &rule{next: func([]int32) []int32 { return []int32{1, 2} }}
		p.Constraint = r
		d := drive(t, p, Config{Ctx: 60})
		if d.pass(t, 3); r.masks > 0 || d.Rows(1) != 0 || d.Rows(2) != min(most, 1) {
			t.Errorf("of %d tokens: %d masks before they are needed, %d rows of logits", most, r.masks, d.Rows(2))
		}
		text, end := d.all(t, func() (int, []sched.Branch) { return 3, nil })
		if most == 0 && r.masks > 0 {
			t.Errorf("%d masks of a text without tokens", r.masks)
		}
		if len(text) != want || end != MaxedOut {
			t.Errorf("of %d tokens: %v, %s", most, text, end)
		}
	}
}

// A text that is cut goes on from there as if the rest had not been.
func TestCut(t *testing.T) {
	p := asked()["25 tokens"]
	p.Sampling.Temp = 0
	want, _ := drive(t, p, Config{Ctx: 60}).all(t, func() (int, []sched.Branch) { return 100, nil })
	for n := 1; n <= 4; n++ {
		d := drive(t, p, Config{Ctx: 60})
		d.pass(t, 5)
		d.Propose(want[1:4])
		if s := d.pass(t, 4); len(s.Tokens) != 4 || d.Evaluated() != 9 || d.Generated() != 5 {
			t.Fatalf("%d tokens, %d evaluated", len(s.Tokens), d.Evaluated())
		}
		d.Cut(n)
		if len(d.Known()) != 6+n || d.Generated() != 1+n || d.Evaluated() != 5+n {
			t.Errorf("cut to %d: %d known, %d generated, %d evaluated", n, len(d.Known()), d.Generated(), d.Evaluated())
		}
		d.seq = d.seq[:d.Positions()]
		rest, end := d.all(t, func() (int, []sched.Branch) { return 100, nil })
		if !slices.Equal(rest, want[1+n:]) || end != MaxedOut {
			t.Errorf("cut to %d: it goes on with %v, %s, want %v", n, rest, end, want[1+n:])
		}
	}
}

// What is reserved for a generation is what its parts take: the sampler, a copy of the logits, and for each row a mask
// and a token with its alternatives.
func TestBytes(t *testing.T) {
	const nVocab = 4096
	if got, want := Bytes(nVocab, 0), sample.Bytes(nVocab)+4*nVocab; got != want {
		t.Errorf("without rows %d, want %d", got, want)
	}
	if got, want := Bytes(nVocab, 7)-Bytes(nVocab, 6), nVocab/8+TokenBytes(MaxTopLogprobs); got != want {
		t.Errorf("%d for a row, want %d", got, want)
	}
	const logprob = 8 // an id and a value of 4 bytes
	if got := TokenBytes(5) - TokenBytes(0); got != 5*logprob || TokenBytes(-1) != TokenBytes(0) ||
		TokenBytes(0) < 8+logprob {
		t.Errorf("a token takes %d bytes, and %d with 5 alternatives", TokenBytes(0), TokenBytes(5))
	}
	if p := (Params{MaxTokens: 0, Draft: draft.Defaults}); p.TextBytes(nVocab, 1000) != 0 {
		t.Error("a prompt alone takes memory for a text")
	}
	if p := (Params{MaxTokens: 1, Sampling: sample.Params{RepeatPenalty: 1}}); p.TextBytes(nVocab, 1000) < 4000 {
		t.Error("a text of one token takes none")
	}
}

// A text that waits again releases what only a running one needs, and goes on the same.
func TestRest(t *testing.T) {
	p := asked()["with a memory"]
	want, _ := drive(t, p, Config{Ctx: 60}).all(t, func() (int, []sched.Branch) { return 100, nil })
	d := drive(t, p, Config{Ctx: 60})
	d.Rest() // before it has begun
	var text []int32
	for n := 5; len(text) < 4; n = 1 {
		text = append(text, d.pass(t, n).Tokens[0].ID)
	}
	d.Propose(want[4:6])
	if d.Rest(); d.Evaluated() != 0 || len(d.Drafts(32)) != 0 || d.tokens != nil || d.masks != nil {
		t.Errorf("%d tokens are evaluated, with %d drafts", d.Evaluated(), len(d.Drafts(32)))
	}
	d.seq = nil
	rest, _ := d.all(t, func() (int, []sched.Branch) { return 100, nil })
	if text = append(text, rest...); !slices.Equal(text, want) {
		t.Errorf("%v, want %v", text, want)
	}
}

// What a sampler has for a large vocabulary is released while a text waits.
func TestRestReleasesTheSampler(t *testing.T) {
	const nVocab = 1 << 20
	p := asked()["25 tokens"]
	p.Sampling = sample.Defaults()
	g, err := New(p, Config{Vocab: nVocab, Ctx: 60, MaxRows: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Advance(5, [][]float32{make([]float32, nVocab)}); err != nil {
		t.Fatal(err)
	}
	took := heap()
	if g.Rest(); took-heap() < nVocab {
		t.Errorf("%d bytes are released", took-heap())
	}
	runtime.KeepAlive(g)
}

// Guesses that a constraint forbids are dropped with what follows them, and so is what follows a stop token, twins of a
// guess, and what is no token.
func TestGuessesThatCannotCome(t *testing.T) {
	odd := func(text []int32) []int32 { return []int32{1, 3, 5} }
	list := func(ids ...int32) (list []draft.Guess) {
		for _, id := range ids {
			list = append(list, draft.Guess{ID: id, Chance: 0.5})
		}
		return list
	}
	beside := func(ids ...int32) []draft.Guess { // all of them after the text
		guesses := list(ids...)
		for i := range guesses {
			guesses[i].Back = i
		}
		return guesses
	}
	for name, c := range map[string]struct {
		next func([]int32) []int32
		list []draft.Guess
		want []int32
	}{
		"allowed":          {odd, list(1, 3, 5), []int32{1, 3, 5}},
		"a forbidden one":  {odd, list(1, 2, 5), []int32{1}},
		"the first":        {odd, list(2, 1), nil},
		"the only one":     {odd, list(2), nil},
		"one beside":       {odd, beside(2, 1, 4, 3), []int32{1, 3}},
		"without a rule":   {nil, list(2, 4), []int32{2, 4}},
		"twins":            {nil, beside(2, 2, 3), []int32{2, 3}},
		"after a stop":     {nil, list(2, 7, 3), []int32{2, 7}},
		"beside a stop":    {nil, beside(7, 3), []int32{7, 3}},
		"beyond the words": {nil, list(2, vocab, 3), []int32{2}},
		"below them":       {nil, list(-1, 3), nil},
		"the last":         {nil, list(vocab-1, 0), []int32{vocab - 1, 0}},
	} {
		p := asked()["to a token"] // 7
		if c.next != nil {
			p.Constraint = &rule{next: c.next}
		}
		d := drive(t, p, Config{Ctx: 60})
		d.SetGuesses(c.list)
		var got []int32
		for _, g := range d.Guesses() {
			got = append(got, g.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A mask is computed once, beside the pass if there is time.
func TestMasksAreComputedOnce(t *testing.T) {
	p := asked()["25 tokens"]
	r := &rule{next: func([]int32) []int32 { return []int32{1} }}
	p.Constraint = r
	d := drive(t, p, Config{Ctx: 60})
	d.pass(t, 5)
	d.Propose([]int32{1, 1, 1})
	before := r.masks
	d.beside = func(n int) {
		d.Prepare(n)
		d.Prepare(n)
	}
	if s := d.pass(t, 4); r.masks != before+4 || len(s.Tokens) != 4 {
		t.Errorf("%d masks for a pass of four rows, %d tokens", r.masks-before, len(s.Tokens))
	}
}

// Branches are cut to so many drafts; those of which nothing new is left are gone.
func TestCutBranches(t *testing.T) {
	of := func(lengths ...int) (list []sched.Branch) { // pairs: drafts, and how many of them are new
		for i := 0; i < len(lengths); i += 2 {
			list = append(list, sched.Branch{Path: make([]int, lengths[i]), New: lengths[i+1]})
		}
		return list
	}
	for depth, want := range [][]sched.Branch{of(), of(), of(2, 1), of(3, 2, 3, 1), of(4, 3, 3, 1)} {
		got := CutBranches(of(4, 3, 3, 1), depth)
		if depth == 1 { // one draft is left of the first, which is in the trunk
			want = of()
		}
		if len(got) != len(want) {
			t.Errorf("at %d: %v, want %v", depth, got, want)
			continue
		}
		for i := range got {
			if len(got[i].Path) != len(want[i].Path) || got[i].New != want[i].New {
				t.Errorf("at %d: branch %d is %v, want %v", depth, i, got[i], want[i])
			}
		}
	}
	if got := CutBranches(of(1, 1), -3); len(got) != 0 {
		t.Errorf("below 0: %v", got)
	}
}

// letters are a vocabulary of single letters and blanks; in pairs, of two at a time where there are two.
type letters struct{ pairs bool }

const alphabet = 27 // letters, and the blank

func (l letters) Text(dst []byte, ids []int32, _ bool) []byte {
	for _, id := range ids {
		if id >= alphabet {
			dst = append(dst, "abcdefghijklmnopqrstuvwxyz "[id/alphabet-1])
		}
		dst = append(dst, "abcdefghijklmnopqrstuvwxyz "[id%alphabet])
	}
	return dst
}

func (l letters) IDs(dst []int32, text []byte, _ bool) []int32 {
	id := func(c byte) int32 {
		if c == ' ' {
			return alphabet - 1
		}
		return int32(c - 'a')
	}
	for i := 0; i < len(text); i++ {
		if l.pairs && i+1 < len(text) && text[i] != ' ' && text[i+1] != ' ' {
			dst = append(dst, (id(text[i])+1)*alphabet+id(text[i+1]))
			i++
			continue
		}
		dst = append(dst, id(text[i]))
	}
	return dst
}

// Words that are complete are converted once: what is read again is the last one.
func TestSettledWords(t *testing.T) {
	mine := letters{}
	w := NewTranslation(mine, letters{pairs: true}, false)
	var ids []int32
	for _, c := range []struct{ more, tail string }{
		{"abc", "abc"}, {"d", "abcd"}, {" ef", " ef"}, {"g", " efg"}, {" h i jkl", " jkl"}, {" ", " "}, {"m", " m"},
	} {
		ids = mine.IDs(ids, []byte(c.more), false)
		if w.read(ids); string(w.tail) != c.tail {
			t.Errorf("after %q %q is left, want %q", c.more, w.tail, c.tail)
		}
	}
	for n, want := range map[int]int{200: 200, longestTail: longestTail, longestTail + 1: longestTail + 1, 300: 258} {
		w := NewTranslation(mine, letters{pairs: true}, false)
		if w.read(make([]int32, n)); len(w.tail) != want { // in whole pairs
			t.Errorf("of a word of %d letters %d are read again, want %d", n, len(w.tail), want)
		}
	}
	fixed := NewTranslation(mine, letters{pairs: true}, true)
	for _, n := range []int{1, 2, 3, 3} {
		if fixed.read(make([]int32, n)); len(fixed.ids) != n {
			t.Errorf("%d letters that were read one by one are %d tokens", n, len(fixed.ids))
		}
	}
}

// The guesses of a model with another vocabulary are converted to the text's, as many as may be and as long as they are
// likely; a text that is too long for the model is lost.
func TestTranslatedProposals(t *testing.T) {
	mine, theirs := letters{}, letters{pairs: true}
	begin := func(o draft.Options, text string) *Proposal {
		o.Sources = 1 << draft.Model
		prompt := mine.IDs(nil, []byte(text), true)
		g, err := New(Params{Prompt: prompt, MaxTokens: 40, Sampling: sample.Defaults(), Draft: o}, Config{
			Vocab: 26, Ctx: 256, MaxRows: 32, // without the blank
		})
		if err != nil {
			t.Fatal(err)
		}
		lib := draft.NewLibrary()
		g.Speculate(lib, "")
		p := NewProposal(g, draft.Model, lib, NewTranslation(mine, theirs, false))
		p.Begin()
		p.Read(64)
		return &p
	}
	for name, c := range map[string]struct {
		o    draft.Options
		says string
		want string
	}{
		"all":             {draft.Options{Max: 16}, "cdefgh", "cdefgh"},
		"one":             {draft.Options{Max: 16}, "a", "a"}, // the first of all tokens
		"one of two":      {draft.Options{Max: 16}, "cd", "cd"},
		"as many as may":  {draft.Options{Max: 5}, "cdefgh", "cdefg"},
		"until the blank": {draft.Options{Max: 16}, "cd ef", "cd"}, // which the model does not have
		"an unlikely one": {draft.Options{Max: 16, MinChance: 0.99}, "cdefgh", "c"},
	} {
		p := begin(c.o, "ab")
		if got := theirs.Text(nil, p.Known(), true); !p.Translates() || string(got) != "ab" || len(p.Known()) != 1 {
			t.Errorf("%s: the text is %q", name, got)
		}
		for _, id := range theirs.IDs(nil, []byte(c.says), false) {
			row := make([]float32, 1000)
			row[id] = 20
			p.Take(row, same)
		}
		p.Translate()
		var ids []int32
		reach := 1.0
		for _, g := range p.Found() {
			ids, reach = append(ids, g.ID), reach*g.Chance
		}
		if math.Abs(p.Gain()-reach*p.Judge.Expected()) > 1e-9 {
			t.Errorf("%s: a further guess gains %v, and all are right with %v", name, p.Gain(), reach)
		}
		if got := string(mine.Text(nil, ids, false)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for _, c := range []struct {
		length int
		lost   bool
	}{{2, false}, {64, false}, {65, true}, {66, true}, {255, true}} {
		p := begin(draft.Options{Max: 16}, string(slices.Repeat([]byte("a"), c.length)))
		if p.Lost != c.lost || c.lost && len(p.Known()) > 0 {
			t.Errorf("a text of %d letters: lost %v, %d tokens", c.length, p.Lost, len(p.Known()))
		}
	}
}
