package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/sched"
)

// Speculation configures a measurement of speculative decoding. Texts are generated with drafts of each of these
// acceptance rates, with drafts of the texts' own sources, and with those of the model's MTP layers, if it has
// some; before and after each, without drafts.
type Speculation struct {
	Right   []Chances
	Own     []draft.Set
	Streams []int   // numbers of texts generated at a time
	Temp    float32 // of sampling, each text with a seed of its own; 0: greedy
	Rounds  string  // file to which rounds are added; results include the rounds already in it; empty: none

	Text     func(model string) ([]int32, error) // of the prompts, by the vocabulary of a model; nil: random tokens
	TextName string                              // recorded in rounds; empty: no text
	By       string                              // the draft model, recorded in rounds; empty: none
}

// Chances are the acceptance rates of drafts.
type Chances struct {
	Right float64 `json:"right"`
	Rival float64 `json:"rival"` // of second drafts for the next tokens, where the first is wrong; 0: none
}

// A SpeculationResult is the speed of some streams with drafts relative to that without. Times are medians over
// rounds.
type SpeculationResult struct {
	Result
	Streams   int       `json:"streams"`
	From      string    `json:"from"`      // source of drafts: see draft.Set; or a record of the text
	Temp      float32   `json:"temp"`      // of sampling
	Text      string    `json:"text"`      // the text of the prompts; empty: random tokens
	By        string    `json:"by"`        // the draft model; empty: none
	Right     float64   `json:"right"`     // acceptance rate: of a record as given, of other sources as measured
	Rival     float64   `json:"rival"`     // acceptance rate of second drafts, where the first is wrong; 0: none
	Rounds    int       `json:"rounds"`    // each measures both speeds
	PlainMS   float64   `json:"plain_ms"`  // per token of a stream, without drafts
	DraftMS   float64   `json:"draft_ms"`  // the same with drafts
	SpeedUp   float64   `json:"speed_up"`  // median over the rounds
	Low       float64   `json:"low"`       // lower end of the 95 % interval of the median; of < 6 rounds the least
	High      float64   `json:"high"`      // upper end of that interval
	Drafts    float64   `json:"drafts"`    // mean per step of a stream
	Accepted  float64   `json:"accepted"`  // of these
	Steps     float64   `json:"steps"`     // steps of a stream per token
	Evaluated float64   `json:"evaluated"` // tokens evaluated per generated token
	Drafting  float64   `json:"drafting"`  // microseconds of drafting between passes, per token
	Rested    float64   `json:"rested"`    // part of the passes without drafts because drafts had lost time
	Bound     float64   `json:"bound"`     // maximum speed-up, by the times of passes measured in the same round
	BestNum   int       `json:"best_num"`  // number of drafts that reaches the bound
	Fraction  float64   `json:"of_bound"`  // speed-up relative to the bound
	Fixed     []float64 `json:"fixed"`     // speed-up with 0, 1, 2 ... drafts in each step
	PassesNS  []int64   `json:"passes_ns"` // nanoseconds of passes with 0, 1, 2 ... drafts per stream
	SpeedUps  []float64 `json:"speed_ups"` // of the rounds
}

func speculationTable() table[SpeculationResult] {
	type col = column[SpeculationResult]
	float := func(name string, width int, f func(r *SpeculationResult) float64) col {
		return col{name, width, false, func(r *SpeculationResult) string { return fmt.Sprintf("%.2f", f(r)) }}
	}
	ms := func(name string, width int, f func(r *SpeculationResult) float64) col {
		return col{name, width, false, func(r *SpeculationResult) string { return milliseconds(f(r)) }}
	}
	return table[SpeculationResult]{[]col{
		{"model", 27, true, func(r *SpeculationResult) string { return r.ModelType }},
		{"threads", 7, false, func(r *SpeculationResult) string { return fmt.Sprint(r.Threads) }},
		{"streams", 7, false, func(r *SpeculationResult) string { return fmt.Sprint(r.Streams) }},
		{"right", 9, false, func(r *SpeculationResult) string {
			if r.From != draft.Replay.String() {
				return fmt.Sprintf("%s %.2f", r.From, r.Right)
			}
			if r.Rival > 0 {
				return fmt.Sprintf("%.2f+%.2f", r.Right, r.Rival)
			}
			return fmt.Sprintf("%.2f", r.Right)
		}},
		{"rounds", 6, false, func(r *SpeculationResult) string { return fmt.Sprint(r.Rounds) }},
		ms("ms/token", 8, func(r *SpeculationResult) float64 { return r.PlainMS }),
		ms("with drafts", 11, func(r *SpeculationResult) float64 { return r.DraftMS }),
		float("speed-up", 8, func(r *SpeculationResult) float64 { return r.SpeedUp }),
		{"95 %", 11, false, func(r *SpeculationResult) string { return fmt.Sprintf("%.2f - %.2f", r.Low, r.High) }},
		float("drafts", 6, func(r *SpeculationResult) float64 { return r.Drafts }),
		float("accepted", 8, func(r *SpeculationResult) float64 { return r.Accepted }),
		float("evaluated", 9, func(r *SpeculationResult) float64 { return r.Evaluated }),
		{"drafting", 9, false, func(r *SpeculationResult) string { return fmt.Sprintf("%.0f µs", r.Drafting) }},
		float("bound", 6, func(r *SpeculationResult) float64 { return r.Bound }),
		{"of it", 6, false, func(r *SpeculationResult) string { return fmt.Sprintf("%.0f %%", 100*r.Fraction) }},
	}, func(r *SpeculationResult) string { return r.footer() }}
}

// milliseconds formats the time of a token: that of a small model is less than one.
func milliseconds(ms float64) string {
	if ms < 1 {
		return fmt.Sprintf("%.4f", ms)
	}
	return fmt.Sprintf("%.2f", ms)
}

// texts returns the cases with the lengths of their prompts, and the text; a case without a length uses all of
// the text.
func (p *Speculation) texts(cases []Case, model string) ([]Case, []int32, error) {
	if p == nil || p.Text == nil {
		return cases, nil, nil
	}
	text, err := p.Text(model)
	if err != nil {
		return nil, nil, err
	}
	cases = slices.Clone(cases)
	for i := range cases {
		c := &cases[i]
		if c.Prompt == 0 {
			c.Prompt = len(text)
		}
		if len(text) == 0 || c.Prompt > len(text) {
			return nil, nil, fmt.Errorf("%s has %d tokens of %s, and the prompt is to have %d; give a longer text or a smaller -p", p.TextName, len(text), model, max(c.Prompt, 1))
		}
	}
	return cases, text, nil
}

// speculate measures drafts with a loaded model, and prompts from a text or of random tokens.
func (b *run) speculate(ctx context.Context, eng *engine.Engine, s Setup, c Case, info about, vocab int, text []int32) error {
	for _, streams := range b.plan.Speculation.Streams {
		m := &speculating{run: b, eng: eng, setup: s, c: c, info: info, n: streams, vocab: vocab, text: text}
		err := m.measure(ctx)
		if m.loop != nil {
			m.loop.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// speculating measures one number of streams.
type speculating struct {
	*run
	eng      *engine.Engine
	loop     *engine.Loop
	setup    Setup
	c        Case
	info     about
	n, vocab int
	text     []int32 // of the prompts; nil: random tokens

	prompts, texts [][]int32
	seq            *engine.Sequence // in the middle of a text
	evaluated      atomic.Int64     // tokens of streams
	plain          sched.Cost       // cost model learned from texts without drafts
	rows           []*drafted
}

// A drafted is a row of the results: one way to draft, with a cost model that learns from its own texts only.
type drafted struct {
	round
	sources draft.Set // none for a record
	cost    sched.Cost
	rounds  []round
}

// A round is a measurement of texts with drafts, between two measurements without. What is compared is close in
// time, so changes of the machine's speed affect both.
type round struct {
	Model   string `json:"model"`
	File    string `json:"file,omitempty"`
	Threads int    `json:"threads"`
	Prompt  int    `json:"n_prompt"`
	Gen     int    `json:"n_gen"`
	Streams int    `json:"streams"`
	From    string `json:"from"`
	Chances
	Temp float32 `json:"temp,omitempty"`
	Text string  `json:"text,omitempty"`
	By   string  `json:"by,omitempty"`

	Plain     float64   `json:"plain_ns"`  // per token of a stream
	Draft     float64   `json:"draft_ns"`  // with drafts
	Drafts    float64   `json:"drafts"`    // in a step
	Accepted  float64   `json:"accepted"`  // in a step
	Steps     float64   `json:"steps"`     // for each token of a stream
	Evaluated float64   `json:"evaluated"` // tokens for each
	Drafting  float64   `json:"drafting_ns"`
	Rested    float64   `json:"rested"` // part of the passes
	Fixed     []float64 `json:"fixed"`  // speed-ups with 0, 1, 2 ... drafts in each step
	Bound     float64   `json:"bound"`
	BestNum   int       `json:"best_num"`
	Passes    []int64   `json:"passes_ns"`
}

// same reports whether two rounds are of the same row.
func (r *round) same(o *round) bool {
	return r.Model == o.Model && r.File == o.File && r.Threads == o.Threads && r.Prompt == o.Prompt && r.Gen == o.Gen && r.Streams == o.Streams && r.From == o.From && r.Chances == o.Chances &&
		r.Temp == o.Temp && r.Text == o.Text && r.By == o.By
}

// mostDrafts is the maximum number of drafts of a stream, also for the bound.
const mostDrafts = 16

func (m *speculating) measure(ctx context.Context) (err error) {
	m.loop, err = engine.NewLoop(m.eng, engine.LoopConfig{Queue: m.n, OnPass: func(p engine.PassInfo) { m.evaluated.Add(int64(p.DecodeTokens)) }})
	if err != nil {
		return err
	}
	m.prompts = make([][]int32, m.n)
	for i := range m.prompts {
		if m.prompts[i] = m.text; m.text == nil {
			m.prompts[i] = m.tokens(m.c.Prompt, m.vocab)
		}
		m.prompts[i] = m.prompts[i][:m.c.Prompt]
	}
	m.seq = m.eng.NewSequence()
	defer m.seq.Close()
	err = m.loop.Between(func() error {
		return m.evaluate(ctx, m.eng, m.seq, m.c.Prompt+m.c.Gen/2, 0, m.eng.Batch(), m.vocab)
	})
	if err != nil {
		return err
	}
	add := func(from string, p Chances, sources draft.Set) {
		plan := m.plan.Speculation
		m.rows = append(m.rows, &drafted{sources: sources, round: round{
			Model: m.info.desc, File: filepath.Base(m.setup.Model), Threads: m.setup.Threads, Prompt: m.c.Prompt, Gen: m.c.Gen, Streams: m.n, From: from, Chances: p,
			Temp: plan.Temp, Text: plan.TextName, By: plan.By,
		}})
	}
	for _, p := range m.plan.Speculation.Right {
		add(draft.Replay.String(), p, 0)
	}
	own := m.plan.Speculation.Own
	if mtp := draft.Set(1 << draft.MTP); len(own) == 0 && m.eng.Model().Drafts() {
		own = []draft.Set{mtp}
	}
	for _, sources := range own {
		add(sources.String(), Chances{}, sources)
	}
	if m.plain, err = m.loop.Exchange(sched.Cost{}); err != nil {
		return err
	}
	for _, r := range m.rows {
		r.cost = m.plain
		if r.rounds, err = readRounds(m.plan.Speculation.Rounds, &r.round); err != nil {
			return err
		}
	}
	warm, err := m.slice(ctx, &m.plain, nil)
	if err != nil {
		return err
	}
	m.texts = warm.texts
	for i := range m.plan.Repeats {
		if err := m.round(ctx, i); err != nil {
			return err
		}
	}
	for _, r := range m.rows {
		if err := m.drafts.row(m.result(r)); err != nil {
			return err
		}
	}
	return nil
}

// round measures each row once.
func (m *speculating) round(ctx context.Context, i int) error {
	passes, err := m.passes(ctx)
	if err != nil {
		return err
	}
	before, err := m.slice(ctx, &m.plain, nil)
	if err != nil {
		return err
	}
	for k := range m.rows {
		r := m.rows[(k+i)%len(m.rows)] // no row is always the first
		texts := make([]draft.Options, m.n)
		for j := range texts {
			if texts[j] = (draft.Options{Max: mostDrafts, Sources: draft.All}); r.From != draft.Replay.String() {
				texts[j].Sources = r.sources
				continue
			}
			seed := uint64(1000*(len(r.rounds)+1) + j)
			texts[j].Record = &draft.Recording{Text: m.texts[j], Right: r.Right, Rival: r.Rival, Seed: seed}
		}
		with, err := m.slice(ctx, &r.cost, texts)
		if err != nil {
			return err
		}
		after, err := m.slice(ctx, &m.plain, nil)
		if err != nil {
			return err
		}
		got := r.round
		got.Plain, got.Draft = (before.each+after.each)/2, with.each
		got.Drafts, got.Accepted, got.Steps, got.Evaluated, got.Drafting, got.Passes = with.drafts, with.accepted, with.steps, with.evaluated, with.drafting, passes
		got.Rested = with.rested
		m.bound(&got, texts)
		if err := addRound(m.plan.Speculation.Rounds, &got); err != nil {
			return err
		}
		r.rounds = append(r.rounds, got)
		before = after
	}
	return nil
}

// bound computes the bound of a round from its times of passes.
func (m *speculating) bound(r *round, texts []draft.Options) {
	if r.From == draft.Replay.String() && r.Rival == 0 {
		r.Fixed = fixed(r.Passes, r.Prompt+1, r.Gen-1, m.eng.Recurrent(), texts)
		r.Bound = slices.Max(r.Fixed)
		r.BestNum = slices.Index(r.Fixed, r.Bound)
		return
	}
	right := r.Right
	if r.From != draft.Replay.String() {
		right = r.Accepted / max(r.Drafts, 1e-9)
	}
	r.Bound, r.BestNum = bound(r.Passes, right, r.Rival)
}

// fixed returns the speed-ups of texts drafted by records, `tokens` tokens from a position on, with 0, 1, 2 ...
// drafts in each step. Which drafts are right is known, so the numbers contain no chance. With recurrent state,
// the pass after a rejected draft has no drafts, and evaluates the accepted ones again.
func fixed(passes []int64, from, tokens int, recurrent bool, texts []draft.Options) []float64 {
	ups := make([]float64, len(passes))
	for n := range ups {
		took := 0.0
		for _, o := range texts {
			again := 0
			for at := from; at < from+tokens; {
				drafts := 0
				if again == 0 {
					drafts = min(n, from+tokens-at-1)
				}
				right := 0
				for right < drafts && o.Record.IsRight(at+right) {
					right++
				}
				took += float64(passes[min(drafts+again, len(passes)-1)])
				at += right + 1
				if again = 0; recurrent && right < drafts {
					again = 1 + right
				}
			}
		}
		ups[n] = float64(len(texts)) * float64(tokens) * float64(passes[0]) / took
	}
	return ups
}

// result returns the result of all rounds of a row.
func (m *speculating) result(d *drafted) *SpeculationResult {
	r := &SpeculationResult{Result: *m.blank(m.setup, m.c, m.info), Streams: m.n, From: d.From, Right: d.Right, Rival: d.Rival, Rounds: len(d.rounds), Temp: d.Temp, Text: d.Text, By: d.By}
	of := func(f func(o *round) float64) (list []float64) {
		for i := range d.rounds {
			list = append(list, f(&d.rounds[i]))
		}
		return list
	}
	mean := func(list []float64) (m float64) {
		m, _ = meanDev(list)
		return m
	}
	for i := range d.rounds {
		r.sample(uint64(d.rounds[i].Draft * float64(m.c.Gen)))
	}
	r.finish(nil, m.info.cost)
	r.PlainMS = middle(of(func(o *round) float64 { return o.Plain / 1e6 }))
	r.DraftMS = middle(of(func(o *round) float64 { return o.Draft / 1e6 }))
	r.SpeedUps = of(func(o *round) float64 { return o.Plain / o.Draft })
	r.SpeedUp = middle(r.SpeedUps)
	r.Low, r.High = interval(r.SpeedUps)
	r.Drafts = mean(of(func(o *round) float64 { return o.Drafts }))
	r.Accepted = mean(of(func(o *round) float64 { return o.Accepted }))
	r.Steps = mean(of(func(o *round) float64 { return o.Steps }))
	r.Evaluated = mean(of(func(o *round) float64 { return o.Evaluated }))
	r.Drafting = middle(of(func(o *round) float64 { return o.Drafting / 1e3 }))
	r.Rested = mean(of(func(o *round) float64 { return o.Rested }))
	r.Bound = middle(of(func(o *round) float64 { return o.Bound }))
	r.Fraction = middle(of(func(o *round) float64 { return o.Plain / o.Draft / o.Bound }))
	if d.From != draft.Replay.String() {
		r.Right = r.Accepted / max(r.Drafts, 1e-9)
	}
	least := func(f func(o *round) int) int { return f(&d.rounds[smallest(d.rounds, f)]) }
	for n := range least(func(o *round) int { return len(o.Fixed) }) {
		r.Fixed = append(r.Fixed, middle(of(func(o *round) float64 { return o.Fixed[n] })))
	}
	for n := range least(func(o *round) int { return len(o.Passes) }) {
		r.PassesNS = append(r.PassesNS, int64(middle(of(func(o *round) float64 { return float64(o.Passes[n]) }))))
	}
	r.BestNum = int(middle(of(func(o *round) float64 { return float64(o.BestNum) })))
	return r
}

// smallest returns the index of the round with the smallest value.
func smallest(rounds []round, f func(o *round) int) (at int) {
	for i := range rounds {
		if f(&rounds[i]) < f(&rounds[at]) {
			at = i
		}
	}
	return at
}

// passes measures passes with 0, 1, 2 ... drafts per stream in the middle of a text.
func (m *speculating) passes(ctx context.Context) (list []int64, err error) {
	const worst = 10 // times a pass without drafts: longer ones cannot win
	const short = 100 * time.Millisecond
	err = m.loop.Between(func() error {
		for n := m.n; len(list) <= mostDrafts && n <= m.eng.Batch() && m.seq.Len()+n <= m.eng.Ctx(); n += m.n {
			took := time.Hour
			for i := range 2 { // the first runs with cold caches, which matters if it is short
				if i > 0 && took > short {
					break
				}
				seq := m.seq.Fork()
				start := time.Now()
				err := m.eng.Eval(ctx, seq, m.tokens(n, m.vocab), 0, func(int, []float32) error { return nil })
				took = min(took, time.Since(start))
				seq.Close()
				if err != nil {
					return err
				}
			}
			list = append(list, int64(took))
			if int64(took) > worst*list[0] {
				break
			}
		}
		return nil
	})
	return list, err
}

// slice generates the texts, with these drafts, nil: without, and updates the cost model.
func (m *speculating) slice(ctx context.Context, cost *sched.Cost, drafts []draft.Options) (s speed, err error) {
	was, err := m.loop.Exchange(*cost)
	if err != nil {
		return s, err
	}
	m.evaluated.Store(0)
	s, err = together(ctx, m.loop, m.prompts, m.c.Gen, m.plan.Speculation.Temp, drafts)
	if err != nil {
		return s, err
	}
	*cost, err = m.loop.Exchange(was)
	if m.texts != nil && !slices.EqualFunc(m.texts, s.texts, slices.Equal) {
		return s, errors.New("with drafts the text is another: please report this")
	}
	s.evaluated = float64(m.evaluated.Load()) / float64(m.n*(m.c.Gen-1))
	return s, err
}

func middle(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// interval returns the 95 % confidence interval of the median, from a sample; of less than 6 values the least and
// the largest.
func interval(v []float64) (low, high float64) {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	k := -1                                 // the most for which the median lies beyond this value seldom enough, on either side
	chance := math.Pow(0.5, float64(n))     // that exactly k + 1 values are below the median
	for below := chance; 2*below <= 0.05; { // that at most so many are
		k++
		chance *= float64(n-k) / float64(k+1)
		below += chance
	}
	k = max(k, 0)
	return v[k], v[n-1-k]
}

// bound returns the speed-up of the best number of drafts, each right with a given chance if those before it are,
// and of second drafts for the first tokens. A second draft also takes a token for each one before it.
func bound(passes []int64, right, rival float64) (best float64, num int) {
	best = 1
	tokens, reach := 1.0, 1.0
	for n := range passes {
		if n > 0 {
			reach *= right
			tokens += reach
		}
		more, before := tokens, 1.0
		for taken, depth := n, 0; taken < len(passes); depth++ {
			if up := more * float64(passes[0]) / float64(passes[taken]); up > best {
				best, num = up, n+depth
			}
			if rival == 0 || depth == n {
				break
			}
			more += before * (1 - right) * rival
			before *= right
			taken += depth + 2
		}
	}
	return best, num
}

// A speed is the speed of texts that are generated together.
type speed struct {
	texts            [][]int32
	each             float64 // nanoseconds per token of a stream, while all streams run
	drafts, accepted float64 // in a step
	steps, evaluated float64 // for each token of a stream
	drafting         float64 // nanoseconds per token, between passes
	rested           float64 // part of the passes
}

// together generates texts from prompts, with these drafts, nil: without, and returns them and their speed.
func together(ctx context.Context, loop *engine.Loop, prompts [][]int32, gen int, temp float32, drafts []draft.Options) (s speed, err error) {
	sampling := sample.Defaults()
	sampling.Temp = temp
	before := loop.Status().Counts
	sinks := make([]*recorder, len(prompts))
	var tickets []*engine.Ticket
	err = loop.Between(func() error { // submit all before the next pass: texts of small models are short
		for k, prompt := range prompts {
			sinks[k] = &recorder{text: slices.Clone(prompt), end: make(chan error, 1)}
			sampling.Seed = uint64(k)
			r := &engine.Request{
				Params:  generate.Params{Prompt: prompt, MaxTokens: gen, Sampling: sampling, TopLogprobs: -1},
				NoCache: true, Slot: -1, Flow: fmt.Sprint(k), Sink: sinks[k],
			}
			if drafts != nil {
				r.Draft = drafts[k]
			}
			t, err := loop.Submit(r)
			if err != nil {
				return err
			}
			tickets = append(tickets, t)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, t := range tickets {
			t.Cancel()
		}
	})
	defer stop()
	for _, sink := range sinks {
		if err := <-sink.end; err != nil {
			return s, err
		}
		s.texts = append(s.texts, sink.text)
	}
	if s.each = pace(sinks); math.IsNaN(s.each) {
		return s, fmt.Errorf("one of %d texts ended before another had begun; give a larger -n", len(prompts))
	}
	after := loop.Status().Counts
	steps := float64(after.SlotPasses - before.SlotPasses - uint64(len(prompts)))
	guessed, right := after.Drafted.Total()
	guessed0, right0 := before.Drafted.Total()
	tokens := float64(len(prompts) * (gen - 1))
	s.rested = float64(after.Rested-before.Rested) / max(float64(after.Passes-before.Passes), 1)
	s.steps, s.drafting = steps/tokens, float64(after.Drafting-before.Drafting)/tokens
	if steps > 0 {
		s.drafts, s.accepted = float64(guessed-guessed0)/steps, float64(right-right0)/steps
	}
	return s, nil
}

// pace returns the average nanoseconds per token of a stream while all streams were generating.
func pace(sinks []*recorder) float64 {
	var from time.Time
	var to time.Time
	for i, s := range sinks {
		if from.Before(s.times[0]) {
			from = s.times[0]
		}
		if last := s.times[len(s.times)-1]; i == 0 || last.Before(to) {
			to = last
		}
	}
	tokens := 0
	for _, s := range sinks {
		for _, t := range s.times {
			if t.After(from) && !t.After(to) {
				tokens++
			}
		}
	}
	if tokens == 0 {
		return math.NaN()
	}
	return float64(to.Sub(from)) * float64(len(sinks)) / float64(tokens)
}

// A recorder is a Sink that records a text and the times of its tokens.
type recorder struct {
	text  []int32
	times []time.Time
	end   chan error
}

func (r *recorder) Progress(engine.Progress) {}

func (r *recorder) Token(t generate.Token) bool {
	r.text, r.times = append(r.text, t.ID), append(r.times, time.Now())
	return true
}

func (r *recorder) Done(res engine.Result) {
	if res.Err == nil && len(r.times) < 2 {
		res.Err = errors.New("a text of less than two tokens, want more to measure")
	}
	r.end <- res.Err
}
