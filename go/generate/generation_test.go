package generate

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/sched"
)

const vocab = 13

// logits are those of a model whose next token depends on the last two.
func logits(ids []int32) []float32 {
	row, last := make([]float32, vocab), ids[max(len(ids)-2, 0):]
	for i := range row {
		row[i] = float32((int(last[0])*5+int(last[len(last)-1])*7+i*i*3)%11) / 2
	}
	return row
}

// A driver evaluates the tokens of a Generation, and knows which its sequence has.
type driver struct {
	*Generation
	seq    []int32
	passes int
	beside func(n int) // what happens while n pending tokens are evaluated; nil: nothing
}

func drive(t *testing.T, p Params, c Config) *driver {
	t.Helper()
	c.Vocab, c.MaxRows = vocab, 32
	g, err := New(p, c)
	if err != nil {
		t.Fatal(err)
	}
	return &driver{Generation: g}
}

// pass evaluates n pending tokens and branches beside them.
func (d *driver) pass(t *testing.T, n int, branches ...sched.Branch) Step {
	t.Helper()
	list := [][]int32{d.Pending(nil, n)}
	if n = len(list[0]); d.Positions()+n > d.Ctx {
		t.Fatalf("%d positions, of %d", d.Positions()+n, d.Ctx)
	}
	var rows [][]float32
	add := func(ids []int32, n int) {
		for i := len(ids) - n + 1; i <= len(ids); i++ {
			rows = append(rows, logits(slices.Concat(d.seq, ids[:i])))
		}
	}
	add(list[0], d.Rows(n))
	for _, b := range d.Split(branches) {
		list = append(list, b.IDs)
		add(b.IDs, b.Rows)
	}
	if d.passes++; d.beside != nil {
		d.beside(n)
	}
	step, err := d.Advance(n, rows)
	if err != nil {
		t.Fatal(err)
	}
	d.seq = append(d.seq, list[d.Taken()]...)
	if d.Positions() > len(d.seq) || !slices.Equal(d.seq[:d.Positions()], d.Known()[:d.Evaluated()]) {
		t.Fatalf("%d tokens of %v are evaluated, and the sequence that was taken, %d, has %v", d.Evaluated(), d.Known(), d.Taken(), d.seq)
	}
	d.seq = d.seq[:d.Positions()]
	return step
}

func (d *driver) all(t *testing.T, next func() (n int, branches []sched.Branch)) (text []int32, end Finish) {
	t.Helper()
	for {
		n, branches := next()
		s := d.pass(t, n, branches...)
		for _, token := range s.Tokens {
			text = append(text, token.ID)
		}
		if s.Finish != "" {
			return text, s.Finish
		}
	}
}

// asked are parameters with all ways in which a text ends.
func asked() map[string]Params {
	plain := Params{Prompt: []int32{3, 1, 4, 1, 5}, MaxTokens: 25, TopLogprobs: -1, Sampling: sample.Params{RepeatPenalty: 1, Temp: 1, Seed: 5}}
	open, stops, biased := plain, plain, plain
	open.MaxTokens = -1
	stops.Stop = func(id int32) bool { return id == 7 }
	biased.Bias, biased.Sampling.FrequencyPenalty = []sample.Bias{{ID: 2, Value: 1}}, 0.3
	return map[string]Params{"25 tokens": plain, "to the end of the context": open, "to a token": stops, "with a memory": biased}
}

// Whatever is guessed, as a tree of whatever shape, and however the tokens are divided into passes, the text is the same,
// and the sequence that the Generation takes has its tokens.
func TestDraftsDoNotChangeAText(t *testing.T) {
	for name, p := range asked() {
		c := Config{Ctx: 60, Banned: []int32{9}}
		plain := drive(t, p, c)
		want, end := plain.all(t, func() (int, []sched.Branch) { return 100, nil })
		if len(want) < 5 || slices.Contains(want, 9) {
			t.Fatalf("%s: the text is %v", name, want)
		}
		fewest := plain.passes
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(1, seed))
			d := drive(t, p, c)
			text, got := d.all(t, func() (int, []sched.Branch) {
				pending := len(d.Known()) - d.Evaluated()
				if pending > 1 {
					return 1 + rng.IntN(pending), nil
				}
				d.SetGuesses(guessTree(rng, want[min(d.Generated(), len(want)):]))
				return chooseTree(rng, d.Generation)
			})
			if fewest = min(fewest, d.passes); !slices.Equal(text, want) || got != end {
				t.Fatalf("%s, seed %d: %v, %s, without drafts %v, %s", name, seed, text, got, want, end)
			}
		}
		if fewest*2 > plain.passes {
			t.Errorf("%s: %d passes at least, without drafts %d: no drafts are right", name, fewest, plain.passes)
		}
	}
}

// guessTree returns a tree of guesses of which some are right.
func guessTree(rng *rand.Rand, rest []int32) (list []draft.Guess) {
	for range rng.IntN(10) {
		back := 0
		if len(list) > 0 && rng.IntN(3) == 0 {
			back = rng.IntN(len(list) + 1)
		}
		depth := 0
		for b := len(list) - 1 - back; b >= 0; b = draft.Before(list, b) {
			depth++
		}
		g := draft.Guess{ID: int32(rng.IntN(vocab + 2)), Chance: 0.4, Back: back, Source: draft.NGram}
		if depth < len(rest) && rng.IntN(4) > 0 {
			g.ID = rest[depth]
		}
		list = append(list, g)
	}
	return list
}

// chooseTree chooses drafts for a pass, as a scheduler does for which all passes take the same time.
func chooseTree(rng *rand.Rand, g *Generation) (int, []sched.Branch) {
	known, drafts := len(g.Known())-g.Evaluated(), g.Drafts(32)
	trunk := 0
	for trunk < len(drafts) && drafts[trunk].After == trunk-1 && rng.IntN(8) > 0 {
		trunk++
	}
	in := make([]bool, len(drafts)) // in the pass
	for v := range trunk {
		in[v] = true
	}
	var branches []sched.Branch
	for v := trunk; v < len(drafts); v++ {
		if rng.IntN(3) == 0 {
			continue
		}
		b := sched.Branch{}
		for w := v; w >= 0; w = drafts[w].After {
			if b.Path = append(b.Path, w); !in[w] {
				b.New++
			}
			in[w] = true
		}
		slices.Reverse(b.Path)
		if b.New > 0 {
			branches = append(branches, b)
		}
	}
	return known + trunk, branches
}

// What a pass has, and what becomes of it.
func TestTranscript(t *testing.T) {
	p := asked()["25 tokens"]
	p.Sampling.Temp = 0
	want, _ := drive(t, p, Config{Ctx: 60}).all(t, func() (int, []sched.Branch) { return 100, nil })
	d := drive(t, p, Config{Ctx: 60})
	var out strings.Builder
	pass := func(n int, branches ...sched.Branch) {
		rows := d.Rows(n)
		s := d.pass(t, n, branches...)
		var right uint64
		if _, r := s.Drafts.Total(); r > 0 {
			right = r
		}
		fmt.Fprintf(&out, "%d tokens, %d rows: %d new, %d drafts right, sequence %d, evaluated %d of %d\n", n, rows, len(s.Tokens), right, d.Taken(), d.Evaluated(), len(d.Known()))
	}
	wrong := (want[4] + 1) % vocab
	pass(3)
	pass(2)
	d.Propose(want[1:3])
	pass(3)
	d.SetGuesses([]draft.Guess{{ID: wrong}, {ID: want[4], Back: 1}, {ID: want[5]}})
	pass(2, sched.Branch{Path: []int{1, 2}, New: 2})
	d.SetGuesses([]draft.Guess{{ID: (want[7] + 1) % vocab}})
	pass(2)
	const transcript = `3 tokens, 0 rows: 0 new, 0 drafts right, sequence 0, evaluated 3 of 5
2 tokens, 1 rows: 1 new, 0 drafts right, sequence 0, evaluated 5 of 6
3 tokens, 3 rows: 3 new, 2 drafts right, sequence 0, evaluated 8 of 9
2 tokens, 2 rows: 3 new, 2 drafts right, sequence 1, evaluated 11 of 12
2 tokens, 2 rows: 1 new, 0 drafts right, sequence 0, evaluated 12 of 13
`
	if out.String() != transcript {
		t.Errorf("got\n%s, want\n%s", &out, transcript)
	}
	if !slices.Equal(d.Known()[5:], want[:8]) {
		t.Errorf("the text is %v, want %v", d.Known()[5:], want[:8])
	}
}

// A text that is shifted is evaluated again with the same shifts.
func TestShiftsDependOnTheTextAlone(t *testing.T) {
	p := asked()["to the end of the context"]
	p.MaxTokens = 40
	d := drive(t, p, Config{Ctx: 20, Shift: Shift{Limit: 19, Keep: 5, By: 7}})
	n, steps := 0, 0
	for {
		if d.Shift.Due(d.Positions()) {
			d.seq = slices.Delete(slices.Clone(d.seq), d.Shift.Keep, d.Shift.Keep+d.Shift.By)
			d.Shifted()
			n++
		}
		list := d.Pending(nil, d.Shift.Room(d.Positions(), 100))
		rows := make([][]float32, d.Rows(len(list)))
		for i := range rows {
			rows[i] = logits(d.Known()[:d.Evaluated()+len(list)-len(rows)+1+i])
		}
		s, err := d.Advance(len(list), rows)
		if err != nil {
			t.Fatal(err)
		}
		if steps++; s.Finish == MaxedOut {
			break
		}
		if d.seq = append(d.seq, list...); len(d.seq) != d.Positions() || d.Positions() >= 20 {
			t.Fatalf("%d positions, and the sequence has %d", d.Positions(), len(d.seq))
		}
	}
	if n != 4 || d.Dropped() != 4*7 || len(d.Skippable()) != 19 {
		t.Errorf("%d shifts in %d steps, %d tokens are dropped and %d skippable", n, steps, d.Dropped(), len(d.Skippable()))
	}
	if d.Rewind(); d.Positions() != 0 || d.Dropped() != 0 {
		t.Errorf("rewound to %d", d.Positions())
	}
}

// What is out of range is refused, and the slice of the prompt is shared until there is more of the text.
func TestNew(t *testing.T) {
	good := asked()["25 tokens"]
	for want, change := range map[string]func(p *Params){
		"the prompt is empty": func(p *Params) { p.Prompt = nil },
		"at most 1000":        func(p *Params) { p.TopLogprobs = MaxTopLogprobs + 1 },
		"temperature":         func(p *Params) { p.Sampling.Temp = -1 },
	} {
		p := good
		change(&p)
		if _, err := New(p, Config{Vocab: vocab, Ctx: 60}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	most := good
	if most.TopLogprobs = MaxTopLogprobs; drive(t, most, Config{Ctx: 60}) == nil {
		t.Error("the most alternatives are refused")
	}
	d := drive(t, good, Config{Ctx: 60})
	if got := d.Skippable(); !slices.Equal(got, good.Prompt[:4]) {
		t.Errorf("%v need not be evaluated, want all but the last of %v", got, good.Prompt)
	}
	if &d.Known()[0] != &good.Prompt[0] || d.smp != nil {
		t.Error("a text that waits has a copy of its prompt, or a sampler")
	}
	if d.pass(t, 5); &d.Known()[0] == &good.Prompt[0] || len(good.Prompt) != 5 {
		t.Error("the text goes on in the caller's slice")
	}
}

// A text is what the sampler makes of it, which is told of the prompt and of each token.
func TestSamplersAreToldOfTheText(t *testing.T) {
	p := asked()["25 tokens"]
	p.Sampling.FrequencyPenalty, p.Sampling.RepeatPenalty, p.Sampling.RepeatLastN = 0.7, 1.2, -1
	smp := sample.New(p.Sampling, vocab)
	for _, id := range p.Prompt {
		smp.Accept(id)
	}
	var want []int32
	for range p.MaxTokens {
		id, err := smp.Sample(logits(slices.Concat(p.Prompt, want)))
		if err != nil {
			t.Fatal(err)
		}
		smp.Accept(id)
		want = append(want, id)
	}
	got, _ := drive(t, p, Config{Ctx: 60}).all(t, func() (int, []sched.Branch) { return 100, nil })
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What a text takes in advance is the sum of its parts, of which some are only where they are asked for.
func TestTextBytesBySum(t *testing.T) {
	const nVocab, n = 5000, 3000
	for _, sources := range []draft.Set{0, 1 << draft.Recent, 1 << draft.NGram, draft.All} {
		p := Params{MaxTokens: 5, Sampling: sample.Defaults(), Draft: draft.Options{Sources: sources}}
		p.Sampling.FrequencyPenalty = 1
		want := mem.Appended(4*n) + p.Sampling.TextBytes(nVocab, n)
		if sources.Has(draft.NGram) {
			want += draft.Bytes(n)
		}
		if got := p.TextBytes(nVocab, n); got != want {
			t.Errorf("drafts from %v: %d bytes, want %d", sources, got, want)
		}
	}
}

// heap returns the bytes that are in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A generation takes no more memory for its text than TextBytes tells in advance, and what it takes depends on what is
// asked of it.
func TestTextBytes(t *testing.T) {
	const tokens, nVocab = 150_000, 40_000
	rng := rand.New(rand.NewPCG(1, 2))
	prompt := make([]int32, tokens)
	for i := range prompt {
		prompt[i] = int32(rng.IntN(nVocab))
	}
	row := make([]float32, nVocab)
	took := map[string]int{}
	for name, ask := range map[string]func(p *Params){
		"nothing":   func(*Params) {},
		"drafts":    func(p *Params) { p.Draft = draft.Defaults },
		"penalties": func(p *Params) { p.Sampling.FrequencyPenalty, p.Sampling.RepeatLastN = 1, -1 },
		"some":      func(p *Params) { p.Sampling.FrequencyPenalty, p.Sampling.RepeatLastN = 1, 20_000 },
		"dry": func(p *Params) {
			p.Sampling.DryMultiplier, p.Sampling.DryLastN, p.Sampling.DryAllowedLength = 1, -1, 0
		},
		"a little": func(p *Params) {
			p.Sampling.DryMultiplier, p.Sampling.DryLastN, p.Sampling.DryAllowedLength = 1, 40_000, 0
		},
	} {
		p := Params{Prompt: prompt, MaxTokens: 300, Sampling: sample.Defaults(), TopLogprobs: -1}
		ask(&p)
		before := heap()
		g, err := New(p, Config{Vocab: nVocab, Ctx: 1 << 20, MaxRows: 32})
		if err != nil {
			t.Fatal(err)
		}
		g.Speculate(draft.NewLibrary(), "")
		for step := (Step{}); step.Finish == ""; {
			for i := range row {
				row[i] = float32(rng.IntN(1000)) / 100
			}
			if step, err = g.Advance(len(g.Known())-g.Evaluated(), [][]float32{row}); err != nil {
				t.Fatal(err)
			}
			g.Guess(false)
		}
		used, most := heap()-before, p.TextBytes(nVocab, tokens+300)
		took[name] = used
		if fixed := Bytes(nVocab, 32); used > most+fixed || used < most/2 {
			t.Errorf("%s: the text takes %d bytes, want at most the %d and %d that are reserved, and half of the former", name, used, fixed, most)
		}
		runtime.KeepAlive(g)
	}
	if took["nothing"] > 8*tokens || took["some"] >= took["penalties"] || took["a little"] >= took["dry"] {
		t.Errorf("what texts take: %v", took)
	}
}
