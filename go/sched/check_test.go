package sched

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A workload is a number of streams and the properties of their drafts.
type workload struct {
	streams, drafts int
	right           float64                         // acceptance rate of the drafts
	claimed         float64                         // the chance that the drafts claim
	rival           float64                         // acceptance rate of second guesses, where the first is wrong; 0: none
	follow          int                             // guesses that follow the second guess at the next token
	single          bool                            // no branches
	rows            bool                            // the time of a row of logits is known
	replays         bool                            // recurrent state: see Config
	wrong           map[int]float64                 // initial errors of the cost model, as factors, by number of tokens
	drafting        time.Duration                   // of a draft model per pass, unknown to the cost model
	truth           func(s Shape) float64           // true milliseconds of a pass
	noise           func() func(*rand.Rand) float64 // returns the factors of successive passes; nil: no noise
	spells          time.Duration                   // periods of one speed, normal or 1.7 times as slow; 0: always normal
}

// speed returns the tokens per second of a workload after each of these numbers of passes, which ascend. It sums
// over several seeds, since acceptance is random. Times are counted without noise and spells, which are random
// too.
func (w workload) speed(t *testing.T, passes ...int) []float64 {
	tokens, took := make([]int, len(passes)), make([]time.Duration, len(passes))
	for seed := range uint64(max(12/w.streams, 5)) {
		w.run(t, passes, seed, func(h, n int, d time.Duration) {
			tokens[h], took[h] = tokens[h]+n, took[h]+d
		})
	}
	perSecond := make([]float64, len(passes))
	for h := range perSecond {
		perSecond[h] = float64(tokens[h]) / took[h].Seconds()
	}
	return perSecond
}

// run runs a workload, and calls at after each of these numbers of passes with the tokens so far and the time
// they took.
func (w workload) run(t *testing.T, passes []int, seed uint64, at func(h, tokens int, took time.Duration)) {
	took := time.Duration(0)
	rng := rand.New(rand.NewPCG(uint64(w.streams), seed))
	truth := func(s Shape) time.Duration { return time.Duration(w.truth(s) * float64(time.Millisecond)) }
	m := newSim(t, Config{Running: w.streams, Batch: 512, Queue: 20, Replays: w.replays, Branches: 16}, 100_000, truth)
	if w.single {
		m.s.cfg.Branches = 0
	}
	m.s.Cost = Cost{}
	for _, n := range []int{1, 4, 8, 16, 64, 256} {
		factor, s := 1.0, Shape{Tokens: n, Rows: 1}
		if n <= 16 {
			s.Rows = n
		}
		if f, ok := w.wrong[n]; ok {
			factor = f
		}
		m.s.Cost.Observe(s, time.Duration(factor*float64(truth(s))))
	}
	if w.rows {
		m.s.Cost.SetRow(truth(Shape{Tokens: 1, Rows: 2}) - truth(Shape{Tokens: 1, Rows: 1}))
	}
	noise := func(*rand.Rand) float64 { return 1 }
	if w.noise != nil {
		noise = w.noise()
	}
	luck := rand.New(rand.NewPCG(seed, 7))
	m.cost = func(s Shape) time.Duration {
		ns := float64(truth(s))
		took += time.Duration(ns)
		ns *= noise(luck)
		if w.spells > 0 && rand.New(rand.NewPCG(seed, uint64(m.now/w.spells))).IntN(2) == 0 {
			ns *= 1.7
		}
		return time.Duration(ns)
	}
	for id := uint64(1); id <= uint64(w.streams); id++ {
		if err := m.add(Request{ID: id, Prompt: 10, MaxTokens: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		m.live[id].draft, m.live[id].chance = w.drafts, w.claimed
		m.live[id].right = func(guessed int) (n int) {
			for n < guessed && rng.Float64() < w.right {
				n++
			}
			return n
		}
		if w.rival > 0 && w.drafts > 0 {
			tree := w.tree()
			m.live[id].tree = tree
			m.live[id].accepted = func(it Item) (n, last int) { return w.walk(rng, tree, it) }
		}
	}
	m.step()
	took = 0
	tokens := func() (n int) {
		for _, q := range m.live {
			n += q.tokens
		}
		return n
	}
	before, ran := tokens(), 0
	for h, n := range passes {
		for ; ran < n; ran++ {
			if w.drafting > 0 && w.drafts > 0 && m.s.Cost.Drafting(w.streams) {
				m.now += w.drafting
				took += w.drafting
				m.s.Spent(w.drafting)
			}
			m.step()
		}
		at(h, tokens()-before, took)
	}
}

// tree returns a trunk, a second guess at each of its first three tokens, and what follows the first of these.
func (w workload) tree() []Draft {
	list := chain(w.drafts, w.claimed)
	for d := range min(3, w.drafts) {
		list = append(list, Draft{(1 - w.claimed) * w.rival, d - 1})
		for range w.follow {
			if d == 0 {
				list = append(list, Draft{w.claimed, len(list) - 1})
			}
		}
	}
	return list
}

// walk returns how many drafts of a pass are accepted, and the last of them.
func (w workload) walk(rng *rand.Rand, list []Draft, it Item) (n, at int) {
	in := make([]bool, len(list))
	for v := range it.Draft {
		in[v] = true
	}
	for _, b := range it.Branches {
		for _, v := range b.Path {
			in[v] = true
		}
	}
	for at = -1; ; n++ {
		first, second := -1, -1
		for v, d := range list {
			if d.After == at && first < 0 {
				first = v
			} else if d.After == at {
				second = v
			}
		}
		next := -1
		if rng.Float64() < w.right {
			next = first
		} else if rng.Float64() < w.rival {
			next = second
		}
		if next < 0 || !in[next] {
			return n, at
		}
		at = next
	}
}

// cloud returns the noise of a virtual machine, as measured with a 1B and a 35B model on two cores. The logarithm
// of the time of equal passes drifts by 0.2 within tens of passes, and varies by 0.1 from one to the next; one
// pass of fifty is late; the first fifty are twice as slow.
func cloud() func(*rand.Rand) float64 {
	slow, n := 0.0, 0
	return func(rng *rand.Rand) float64 {
		const memory = 24
		slow += -slow/memory + 0.2*math.Sqrt(2.0/memory)*rng.NormFloat64()
		f := math.Exp(slow + 0.1*rng.NormFloat64())
		if rng.IntN(50) == 0 {
			f *= 1.5 + rng.Float64()
		}
		if n++; n <= 50 {
			f *= 2
		}
		return f
	}
}

// Cost functions. steep: each token takes nearly as long as the first. flat: many tokens take as long as one.
// experts: each token reads experts of its own. logits: rows of logits are most of the work. linear: a 1B on two
// cores, whose 16 streams win or lose next to nothing by drafts.
func steep(s Shape) float64   { return 2 + float64(s.Tokens) }
func flat(s Shape) float64    { return 20 + float64(s.Tokens)/2 }
func experts(s Shape) float64 { return 8 + 4*float64(min(s.Tokens, 16)) + float64(s.Tokens)/4 }
func logits(s Shape) float64  { return 10 + float64(s.Tokens)/4 + 3*float64(s.Rows) }
func linear(s Shape) float64  { return 24 + 3.35*float64(s.Tokens) + 1.1*float64(s.Rows) }
func hybrid(s Shape) float64  { return 22 + 6.3*float64(s.Tokens) } // 12 layers of a 35B-A3B
func dear(s Shape) float64    { return flat(s) + 10*float64(s.Branches) }

// Drafts never make generation slower than 0.98 of the speed without, at any number of streams: if the cost model
// is wrong at first, if passes take longer with drafts than with other tokens, if guesses claim too high chances.
// Drafts that win continue.
func TestDraftsThatLoseStop(t *testing.T) {
	held := func() func(*rand.Rand) float64 {
		return func(rng *rand.Rand) float64 { // slow now and then
			if rng.IntN(40) == 0 {
				return 5
			}
			return 0.9 + 0.2*rng.Float64()
		}
	}
	for name, c := range map[string]struct {
		workload
		least float64
	}{
		"slow at first":           {workload{truth: steep, streams: 8, right: 0.6, wrong: map[int]float64{1: 2, 4: 2, 8: 2}}, 0.98},
		"slow at first, alone":    {workload{truth: steep, streams: 1, right: 0.6, wrong: map[int]float64{1: 3}}, 0.98},
		"thought cheap":           {workload{truth: steep, streams: 8, right: 0.6, wrong: map[int]float64{16: 0.55, 64: 0.2}}, 0.98},
		"right costs":             {workload{truth: steep, streams: 8, right: 0.6}, 0.98},
		"16 streams":              {workload{truth: steep, streams: 16, right: 0.6, wrong: map[int]float64{64: 0.3}}, 0.98},
		"linear, 16 streams":      {workload{truth: linear, streams: 16, right: 0.8, wrong: map[int]float64{64: 0.9}}, 0.98},
		"linear, in noise":        {workload{truth: linear, streams: 16, right: 0.8, wrong: map[int]float64{64: 0.9}, noise: held}, 0.98},
		"linear, rows known":      {workload{truth: linear, streams: 16, right: 0.7, rows: true, wrong: map[int]float64{64: 0.8}, noise: held}, 0.98},
		"linear, 8 streams":       {workload{truth: linear, streams: 8, right: 0.7, rows: true, wrong: map[int]float64{64: 0.9}, noise: held}, 0.98},
		"18 streams":              {workload{truth: flat, streams: 18, right: 0.3, wrong: map[int]float64{64: 0.3}}, 0.98},
		"random text":             {workload{truth: flat, streams: 1, right: 0.02, claimed: 0.1}, 0.98},
		"high temperature":        {workload{truth: flat, streams: 4, right: 0.1, claimed: 0.3}, 0.98},
		"experts":                 {workload{truth: experts, streams: 1, right: 0.4, wrong: map[int]float64{4: 0.5, 8: 0.5, 16: 0.5}}, 0.98},
		"experts, 16 streams":     {workload{truth: experts, streams: 16, right: 0.3, wrong: map[int]float64{64: 0.4}}, 0.98},
		"a large vocabulary":      {workload{truth: logits, streams: 1, right: 0.3}, 0.98},
		"the same, 16 streams":    {workload{truth: logits, streams: 16, right: 0.4}, 0.98},
		"evaluated again":         {workload{truth: steep, streams: 4, right: 0.5, claimed: 0.8, replays: true}, 0.98},
		"noise":                   {workload{truth: steep, streams: 4, right: 0.5, claimed: 0.8, noise: held}, 0.98},
		"a slow draft model":      {workload{truth: flat, streams: 1, right: 0.5, drafting: 30 * time.Millisecond}, 0.98},
		"the same, 4 streams":     {workload{truth: flat, streams: 4, right: 0.5, drafting: 40 * time.Millisecond}, 0.97},
		"random trees":            {workload{truth: flat, streams: 1, right: 0.05, rival: 0.02, claimed: 0.3, follow: 3}, 0.98},
		"trees that lie":          {workload{truth: steep, streams: 2, right: 0.3, rival: 0.05, claimed: 0.5, follow: 2}, 0.98},
		"trees of experts":        {workload{truth: experts, streams: 1, right: 0.4, rival: 0.5, wrong: map[int]float64{4: 0.5, 8: 0.5, 16: 0.5}}, 0.98},
		"trees, 16 streams":       {workload{truth: steep, streams: 16, right: 0.5, rival: 0.6, wrong: map[int]float64{64: 0.3}}, 0.98},
		"trees in noise":          {workload{truth: steep, streams: 4, right: 0.4, rival: 0.5, noise: held}, 0.98},
		"trees of many logits":    {workload{truth: logits, streams: 1, right: 0.3, rival: 0.5}, 0.98},
		"dear branches":           {workload{truth: dear, streams: 1, right: 0.3, rival: 0.6}, 0.98},
		"states":                  {workload{truth: steep, streams: 2, right: 0.6, replays: true}, 0.98},
		"states that win":         {workload{truth: flat, streams: 1, right: 0.7, replays: true}, 1.5},
		"trees win":               {workload{truth: flat, streams: 1, right: 0.5, rival: 0.6}, 1.6},
		"on a cloud, hybrid":      {workload{truth: hybrid, streams: 1, right: 0.7, replays: true, noise: cloud}, 1.1},
		"on a cloud, replays":     {workload{truth: hybrid, streams: 1, right: 0.4, claimed: 0.7, replays: true, noise: cloud}, 0.98},
		"on a cloud, 4 streams":   {workload{truth: linear, streams: 4, right: 0.8, noise: cloud, spells: 4 * time.Second}, 1.1},
		"on a cloud, 16 streams":  {workload{truth: linear, streams: 16, right: 0.8, noise: cloud}, 0.98},
		"on a cloud, experts":     {workload{truth: experts, streams: 1, right: 0.4, wrong: map[int]float64{4: 0.5, 8: 0.5, 16: 0.5}, noise: cloud}, 0.98},
		"on a cloud, steep":       {workload{truth: steep, streams: 4, right: 0.5, claimed: 0.8, noise: cloud}, 0.98},
		"on a cloud, alone":       {workload{truth: flat, streams: 1, right: 0.6, noise: cloud}, 1.7},
		"they win":                {workload{truth: flat, streams: 8, right: 0.6}, 1.2},
		"they win alone":          {workload{truth: flat, streams: 1, right: 0.6}, 1.6},
		"they win, slow at first": {workload{truth: flat, streams: 4, right: 0.6, wrong: map[int]float64{1: 2, 4: 2}}, 1.4},
		"they win in noise":       {workload{truth: flat, streams: 1, right: 0.6, noise: held}, 1.4},
		"random text in spells":   {workload{truth: flat, streams: 1, right: 0.1, claimed: 0.4, spells: 3 * time.Second}, 0.98},
		"they lose in spells":     {workload{truth: steep, streams: 4, right: 0.5, claimed: 0.8, spells: time.Second}, 0.98},
		"experts in spells":       {workload{truth: experts, streams: 1, right: 0.4, wrong: map[int]float64{4: 0.5, 8: 0.5, 16: 0.5}, spells: time.Second}, 0.98},
		"they win in spells":      {workload{truth: flat, streams: 1, right: 0.6, spells: 2 * time.Second}, 1.8},
		"thought dear":            {workload{truth: flat, streams: 1, right: 0.9, claimed: 0.9, wrong: map[int]float64{4: 1.3, 8: 1.5, 16: 1.5}}, 2.8},
		"they win, claimed less":  {workload{truth: flat, streams: 1, right: 0.8, claimed: 0.6}, 1.6},
	} {
		c.drafts = 4
		if c.claimed == 0 {
			c.claimed = c.right
		}
		plain := c.workload
		plain.drafts = 0
		horizons := []int{50, 300, 1000}
		with, without := c.speed(t, horizons...), plain.speed(t, horizons...)
		for h, passes := range horizons {
			least := c.least
			if passes < 100 { // the cost of finding out
				least -= 0.04
			}
			if passes < 100 && c.drafting > 0 {
				continue // each trial takes as long as a pass
			}
			if got := with[h] / without[h]; got < least {
				t.Errorf("%s: with drafts %.3f of the speed without in %d passes, want %.2f", name, got, passes, least)
			} else {
				t.Logf("%s: %.3f in %d passes", name, got, passes)
			}
		}
	}
}

// Sources that claim too high chances lose more at first, within limits.
func TestDraftsThatLie(t *testing.T) {
	w := workload{truth: steep, streams: 1, drafts: 4, right: 0.05, claimed: 0.9}
	plain := w
	plain.drafts = 0
	horizons := []int{50, 300, 1000}
	with, without := w.speed(t, horizons...), plain.speed(t, horizons...)
	for h, least := range [...]float64{0.9, 0.97, 0.98} {
		if got := with[h] / without[h]; got < least {
			t.Errorf("with drafts %.3f of the speed without in %d passes, want %.3f", got, horizons[h], least)
		} else {
			t.Logf("%.3f in %d passes", got, horizons[h])
		}
	}
}

// The balance of drafts: the first pass may have some, then passes without are measured. Losses are bounded, and
// drafts are tried again after a while.
func TestCheck(t *testing.T) {
	var c Cost
	one := Shape{Tokens: 1, Rows: 1}
	pass := func(drafted bool, took time.Duration, promised float64, tokens int) {
		c.Generated(Pass{Streams: one, Drafted: drafted, Promised: promised, Tokens: tokens, Took: took})
	}
	if !c.Drafting(1) {
		t.Fatal("the first pass has no drafts")
	}
	pass(true, 30, 1, 1)
	for range leastPlain {
		if c.Drafting(1) {
			t.Fatal("drafts before passes without were measured")
		}
		pass(false, 10, 0, 1)
	}
	n := 0
	for ; c.Drafting(1); n++ {
		pass(true, 20, 0.5, 1) // twice as long, and nothing accepted
		if n > 10 {
			t.Fatal("drafts lose on and on")
		}
	}
	if n < 2 {
		t.Errorf("%d passes were enough to stop drafts", n)
	}
	rest := 0
	for ; !c.Drafting(1); rest++ {
		if pass(false, 10, 0, 1); rest > 10_000 {
			t.Fatal("drafts never come back")
		}
	}
	if rest < 300 {
		t.Errorf("drafts come back after %d passes", rest)
	}
	for range plainEvery { // drafts win now
		if !c.Drafting(1) {
			t.Fatal("drafts that win are stopped")
		}
		pass(true, 12, 1.5, 3)
	}
	if c.Drafting(1) {
		t.Error("no pass without drafts in a long time")
	}
	pass(false, 10, 0, 1)
	if pass(true, 10_000, 1.5, 3); !c.Drafting(1) {
		t.Error("one slow pass stops drafts that win")
	}
	if c = (Cost{}); !c.Drafting(3) {
		t.Error("drafts at one number of streams stop those at another")
	}
	for range 50 { // passes without a time or without streams are not judged
		c.Generated(Pass{Streams: one, Drafted: true, Promised: 1, Tokens: 1})
	}
	c.Generated(Pass{Took: 10})
	if !c.Drafting(1) {
		t.Error("passes without a time or streams were judged")
	}
}

// Each time that drafts have lost, they rest for longer; after a long run of drafts that won, for as long as the first time.
func TestRestsGrow(t *testing.T) {
	var c Cost
	pass := func(drafted bool, took time.Duration, tokens int) {
		c.Generated(Pass{Streams: Shape{Tokens: 1, Rows: 1}, Drafted: drafted, Tokens: tokens, Sure: tokens - 1, Took: took})
	}
	pass(true, 100, 1)
	rest := func() (n int) {
		for i := 0; !c.Resting(1); i++ {
			if drafted := c.Drafting(1); drafted {
				pass(true, 130, 1)
			} else {
				pass(false, 100, 1)
			}
			if i > 10_000 {
				t.Fatal("drafts lose on and on")
			}
		}
		for ; c.Resting(1); n++ {
			pass(false, 100, 1)
		}
		return n
	}
	first, second := rest(), rest()
	if second < first*3/2 {
		t.Errorf("a rest of %d passes after one of %d", second, first)
	}
	for wins := 0; wins < won; {
		if c.Drafting(1) {
			pass(true, 110, 2)
			wins++
		} else {
			pass(false, 100, 1)
		}
	}
	if again := rest(); again > first*5/4 {
		t.Errorf("a rest of %d passes after %d that won, the first was of %d", again, won, first)
	}
}

// Branches wait until passes without drafts were measured, and rest for themselves, at one number of streams.
func TestBranchesWait(t *testing.T) {
	var free Cost
	if !free.branching(1) {
		t.Error("no branches where passes take no time")
	}
	c := learned(flatCost(20*time.Millisecond, time.Millisecond))
	one := Shape{Tokens: 1, Rows: 1}
	for i := range leastPlain {
		if c.branching(1) {
			t.Errorf("branches after %d passes without drafts", i)
		}
		c.Generated(Pass{Streams: one, Tokens: 1, Took: 20 * time.Millisecond})
	}
	if !c.branching(1) {
		t.Error("no branches although passes without drafts were measured")
	}
	lose := func() {
		for n := 0; c.branching(1); n++ { // twice as slow
			if c.Generated(Pass{Streams: one, Drafted: true, Branched: true, Tokens: 1, Took: 40 * time.Millisecond}); n > 10 {
				t.Fatal("branches lose on and on")
			}
		}
	}
	lose()
	if !c.Drafting(1) {
		t.Error("no drafts at all where branches lost")
	}

	rests := []int{}
	for range 8 {
		rest := 0
		for ; !c.branching(1); rest++ {
			if rest > 100_000 {
				t.Fatal("branches never come back")
			}
			c.Generated(Pass{Streams: one, Tokens: 1, Took: 20 * time.Millisecond})
		}
		rests = append(rests, rest)
		lose()
	}
	for i, rest := range rests[1:] {
		if want := min(2*rests[i], rests[0]<<mostBared); rest != want {
			t.Errorf("branches rest for %v passes, want each rest twice as long as the one before, to a limit", rests)
			break
		}
	}
}

// The pass that a check judges has the tokens, positions and rows of logits of its streams, without their drafts.
func TestCheckSeesTheStreams(t *testing.T) {
	m := newSim(t, Config{Running: 3, Batch: 64, Queue: 3}, 1000, flatCost(20*time.Millisecond, time.Millisecond))
	for id := uint64(1); id <= 3; id++ {
		if err := m.add(Request{ID: id, Prompt: 10 * int(id), MaxTokens: 100}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		m.step()
	}
	want := Shape{Tokens: 3, Rows: 3}
	for _, q := range m.live {
		want.Read += q.positions + 1
		want.Attended += q.positions + 1
		q.draft = 1
	}
	m.step()
	if got := m.s.last.Streams; got != want {
		t.Errorf("the streams of the pass are %+v, want %+v", got, want)
	}
}

// Rows of logits have a cost: each draft has a row, a prompt's token has none.
func TestRowsOfLogitsCost(t *testing.T) {
	dear := func(s Shape) time.Duration { return time.Duration(logits(s) * float64(time.Millisecond)) }
	var c Cost
	c.SetRow(3 * time.Millisecond)
	for _, n := range []int{1, 4, 8, 16} {
		c.Observe(Shape{Tokens: n, Rows: n}, dear(Shape{Tokens: n, Rows: n}))
	}
	for _, n := range []int{64, 256} {
		c.Observe(Shape{Tokens: n, Rows: 1}, dear(Shape{Tokens: n, Rows: 1}))
	}
	for _, s := range []Shape{{Tokens: 8, Rows: 1}, {Tokens: 64, Rows: 64}, {Tokens: 40, Rows: 40}, {Tokens: 100, Rows: 17}} {
		if ratio := float64(c.Estimate(s)) / float64(dear(s)); ratio < 0.9 || ratio > 1.1 {
			t.Errorf("a pass of %+v should take %v, and takes %v", s, c.Estimate(s), dear(s))
		}
	}
	if n := chosen(&c, 16, 3, 0.7, false); n > 0 { // 35 ms more for tokens alone would pay; with 48 rows nothing does
		t.Errorf("%d drafts whose rows take longer than they save", n)
	}
	c.SetRow(time.Millisecond) // wrong, and corrected by observation
	for range 200 {
		for _, s := range []Shape{{Tokens: 16, Rows: 1}, {Tokens: 16, Rows: 16}} {
			c.Observe(s, dear(s))
		}
	}
	if got := c.Row(); got < 2*time.Millisecond || got > 4*time.Millisecond {
		t.Errorf("a row takes %v, want 3 ms", got)
	}
}

// What passes without drafts take is the average of the first ones, then of recent ones, and one pass that is late counts as
// twice the average.
func TestPlainPace(t *testing.T) {
	var p pace
	p.add(2, 100)
	if p.took != 100 || p.streams != 2 {
		t.Fatalf("%+v", p)
	}
	p.add(4, 1000)
	if p.took != 150 || p.streams != 3 || p.passes != 2 {
		t.Errorf("%+v, want (100 + 200) / 2", p)
	}
	for range 30 {
		p.add(3, 150)
	}
	was := p.took
	if p.add(3, was+16); math.Abs(p.took-was-1) > 1e-9 {
		t.Errorf("one of 16 passes counts %v", p.took-was)
	}
}

// Branches that lose in two passes are left out for a while, twice as long each time, up to 16 times.
func TestBranchesRestLonger(t *testing.T) {
	var c check
	for i, want := range []int{512, 1024, 2048, 4096, 8192, 8192, 8192} {
		if c.grow(5, true); c.bare != 0 {
			t.Fatalf("round %d: one pass is enough to leave branches out", i)
		}
		if c.grow(5, true); c.bare != want || c.forked != 0 {
			t.Errorf("round %d: %d passes without branches, want %d; %v are lost", i, c.bare, want, c.forked)
		}
		for n := want; n > 0; n-- {
			if c.bare != n {
				t.Fatalf("round %d: %d passes are left, want %d", i, c.bare, n)
			}
			c.grow(0, false)
		}
	}
	c.grow(0.2, true)
	c.grow(-0.1, true)
	if c.grow(0.2, true); math.Abs(c.forked-0.3) > 1e-9 || c.bare != 0 {
		t.Errorf("%v are lost", c.forked)
	}
	if c.grow(-5, true); c.forked != 0 {
		t.Errorf("what branches win is kept: %v", c.forked)
	}
}

// How much of what drafts promise comes true: certain ones do not count, and passes without drafts let the past fade.
func TestTrust(t *testing.T) {
	var c Cost
	streams := ShapeOf(10, 1).Add(10, 1) // two
	c.Generated(Pass{Streams: streams, Drafted: true, Sure: 3, Promised: 4, Tokens: 2 + 3 + 1, Took: time.Millisecond})
	if got, want := c.trust.part(), (1.0+trustPrior)/(4+trustPrior); math.Abs(got-want) > 1e-12 {
		t.Errorf("one of four comes true: %v, want %v", got, want)
	}
	c.Generated(Pass{Streams: streams, Drafted: true, Sure: 3, Promised: 4, Tokens: 2, Took: time.Millisecond})
	keep := math.Exp(-4.0 / trustMemory)
	if got, want := c.trust.part(), (keep+trustPrior)/(4*keep+4+trustPrior); math.Abs(got-want) > 1e-12 {
		t.Errorf("then none of four: %v, want %v", got, want)
	}
	low := c.trust.part()
	for range 10 * trustPasses {
		was := c.trust.part()
		if c.Generated(Pass{Streams: streams, Tokens: 2, Took: time.Millisecond}); c.trust.part() <= was {
			t.Fatal("the past does not fade")
		}
	}
	if got := c.trust.part(); low > 0.9 || got < 0.999 {
		t.Errorf("a trust of %v is %v after many passes", low, got)
	}
	before := c
	for _, p := range []Pass{{Streams: streams}, {Took: time.Millisecond, Drafted: true, Promised: 5}} {
		if c.Generated(p); c.trust != before.trust {
			t.Error("a pass of nothing counts")
		}
	}
}

// Losses beyond what one pass may lose are a debt, which makes the rest of drafts longer.
func TestDebt(t *testing.T) {
	c := check{balance: 1}
	c.grow(0.4, false)
	if c.debt != 0 || math.Abs(c.balance-(1+allowance-0.4)) > 1e-9 {
		t.Errorf("a small loss: a balance of %v, a debt of %v", c.balance, c.debt)
	}
	half := c.balance / 2
	if c.grow(10, false); math.Abs(c.debt-(10-half)) > 1e-9 || math.Abs(c.balance-(half+allowance)) > 1e-9 || c.resting {
		t.Errorf("a large loss: a balance of %v, a debt of %v", c.balance, c.debt)
	}
	c.balance = 0.1
	if c.grow(10, false); !c.resting || math.Abs(c.balance-(0.1+allowance-opening/2-mostDebt)) > 1e-9 || c.lost != 1 || c.running != 0 {
		t.Errorf("used up: %+v", c)
	}
	for c.resting {
		c.grow(0, false)
	}
	if c.balance < opening || c.debt != 0 {
		t.Errorf("rested: %+v", c)
	}
	for range 1000 {
		c.grow(-1, false)
	}
	if c.balance != stake {
		t.Errorf("a balance of %v", c.balance)
	}
}
