package answer

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

const (
	logprob = int(unsafe.Sizeof(sample.Logprob{}))
	token   = int(unsafe.Sizeof(generate.Token{}))
	event   = int(unsafe.Sizeof(Event{}))
)

// What a request takes is twice what it is: its texts once, what grows in slices twice, and of log-probabilities what is
// kept and what is encoded at a time.
func TestPrices(t *testing.T) {
	prompts := [][]int32{make([]int32, 90), make([]int32, 60)}
	for _, tt := range []struct {
		n, most, probs, promptProbs int
		stream                      bool
		base, few, kept             int
	}{
		{1, 0, -1, -1, false, 2*64<<10 + 2*2*4<<10 + 4*150, 0, 0},
		{3, 5, -1, -1, false, 2*64<<10 + 2*3*2*4<<10 + 4*150, 30 * (4*token + 4*event), 0},
		{3, 5, 0, -1, false, 2*64<<10 + 2*3*2*4<<10 + 4*150, 30 * (4*token + 4*event), 0},
		{2, -1, 4, -1, true, 2*64<<10 + 4*512 + 2*2*2*4<<10 + 4*150, 64 * (4*token + 4*event), 2 * (10 + 40) * 4 * 2 * logprob},
		{7, 5, 4, -1, false, 2*64<<10 + 4*512 + 2*7*2*4<<10 + 4*150, 64 * (4*token + 4*event), 2 * 7 * 5 * 4 * 2 * logprob},
		{2, 0, -1, 3, false, 2*64<<10 + 2*2*2*4<<10 + 4*150 + 2*150*(4*token+3*2*logprob), 0, 0},
		{2, 0, -1, 3, true, 2*64<<10 + 2*2*2*4<<10 + 4*150 + 2*150*(4*token+3*2*logprob) + 150*(1+3)*512, 0, 0},
		{1, 0, -1, 0, true, 2*64<<10 + 2*2*4<<10 + 4*150 + 150*4*token + 150*512, 0, 0},
	} {
		o := ask.NewOptions(&ask.Model{})
		o.N, o.MaxTokens, o.Probs, o.PromptProbs, o.Stream = tt.n, tt.most, tt.probs, tt.promptProbs, tt.stream
		base, few, kept := price(&o, &ask.Model{Ctx: 100}, prompts)
		if base != tt.base || few != tt.few || kept != tt.kept {
			t.Errorf("%+v: %d, %d, %d", tt, base, few, kept)
		}
	}
	tokens := []generate.Token{{}, {Top: make([]sample.Logprob, 2, 5)}}
	p := Piece{Tokens: tokens, deltas: []chat.Delta{{Content: "four", Reasoning: "of 6.."}, {Call: &chat.CallPart{ID: "1", Name: "two", Arguments: "{ }"}}},
		said: [][]generate.Token{tokens, nil, tokens[:1]}}
	text, kept := p.price()
	if want := 2*(2*int(unsafe.Sizeof(chat.Delta{}))+2*10) + 2*(int(unsafe.Sizeof(chat.CallPart{}))+2*7); text != want {
		t.Errorf("the text of a piece takes %d, want %d", text, want)
	}
	if want := 2*4*token + 5*2*logprob + 3*4*token; kept != want {
		t.Errorf("the tokens of a piece take %d, want %d", kept, want)
	}
}

// newBudget returns a budget of which something else has a part.
func newBudget(t *testing.T, limit, others uint64) *mem.Budget {
	t.Helper()
	b := mem.NewBudget(limit, "a test")
	if _, err := b.Reserve("others", others); err != nil {
		t.Fatal(err)
	}
	return b
}

// A request is admitted if there is what it needs, a large one if an eighth of the memory for answers is left to small
// ones; else it is told whether that can ever be.
func TestAdmission(t *testing.T) {
	prompts := [][]int32{make([]int32, 10)}
	type options struct {
		n, probs int
		stream   bool
	}
	of := func(x options) *ask.Options {
		o := ask.NewOptions(&ask.Model{})
		o.N, o.Probs, o.Stream, o.MaxTokens = x.n, x.probs, x.stream, 2000
		return &o
	}
	for _, x := range []options{{1, -1, false}, {1, 0, false}, {1, 40, false}, {20, 100, false}, {20, 100, true}, {1, 5, true}} {
		o, m := of(x), &ask.Model{Ctx: 4000}
		base, few, kept := price(o, m, prompts)
		const body = 1000
		if base += 2 * body; x.stream {
			kept = min(kept, 8<<20)
		}
		need := uint64(base + few + kept)
		least := need // of the memory for answers
		if need > 1<<20 {
			for least = need; least-least/8 < need; least++ {
			}
		}
		for _, tt := range []struct {
			limit, others uint64
			status        int
		}{
			{least, 0, 0}, {least + 100<<20, 100 << 20, 0}, {least - 1, 0, 400}, {least + 100<<20 - 1, 100 << 20, 429},
		} {
			if need > 1<<20 && tt.others > 0 && tt.status != 0 {
				tt.status = 400 // the others do not go for it
			}
			m.Memory = newBudget(t, tt.limit, tt.others)
			l, err := newLedger(m, o, prompts, body)
			e := (*reply.Error)(nil)
			if tt.status == 0 {
				if err != nil || m.Memory.Used() != tt.others+need || l.floor != int(need) || l.held != base || !l.Hold(1) {
					t.Errorf("%+v in %+v: %v, %d used, want %d: %+v", x, tt, err, m.Memory.Used()-tt.others, need, l)
				}
				l.close()
			} else if !errors.As(err, &e) || e.Status != tt.status || (e.Retry > 0) != (tt.status == 429) {
				t.Errorf("%+v in %+v, need %d: %+v", x, tt, need, err)
			} else if better := strings.HasSuffix(e.Message, ", or for a stream"); better != (!x.stream && x.probs >= 0) {
				t.Errorf("%+v: %s", x, e.Message)
			}
			if m.Memory.Used() != tt.others {
				t.Errorf("%+v in %+v: %d bytes are left", x, tt, m.Memory.Used()-tt.others)
			}
		}
	}
	// At a bound a small request waits for others, and is not told that it never fits: at the memory for all answers, at
	// what counts as small, and at all there is.
	o, m := of(options{1, -1, false}), &ask.Model{Ctx: 4000}
	base, few, kept := price(o, m, prompts)
	small := base + few + kept // of no body
	for _, c := range []struct {
		need, limit, answers, others int
		status                       int
	}{
		{1 << 20, 1 << 20, 0, 0, 0}, {1 << 20, 1 << 20, 2, 0, 429}, {1 << 20, 1<<20 - 1, 0, 0, 400}, {1<<20 + 2, 1<<20 + 2, 0, 0, 400},
		{small, small, 0, 1, 429}, {small, small - 1, 0, 0, 400}, {7 << 20, 8 << 20, 1, 0, 429}, {7 << 20, 8 << 20, 0, 0, 0}, {7<<20 + 2, 8 << 20, 0, 0, 400},
	} {
		m.Memory = newBudget(t, uint64(c.limit), uint64(c.others))
		if _, err := m.Memory.Reserve(answersPurpose, uint64(c.answers)); err != nil {
			t.Fatal(err)
		}
		spared := uint64(0)
		m.Spare = func(n uint64) uint64 { spared += n; return 0 }
		l, err := newLedger(m, o, prompts, (c.need-small)/2)
		e := (*reply.Error)(nil)
		if c.status == 0 && err != nil || c.status > 0 && (!errors.As(err, &e) || e.Status != c.status) {
			t.Errorf("%+v: %v", c, err)
		}
		if want := c.status != 0 && c.need <= 1<<20; (spared == 1<<20) != want || (spared > 0) != want {
			t.Errorf("%+v: caches were asked for %d bytes", c, spared)
		}
		if err == nil {
			l.close()
		}
	}
	// What answers have already is part of the memory for them; caches make room for what is small, and for that only.
	for _, small := range []bool{true, false} {
		o, m := of(options{1, -1, false}), &ask.Model{Ctx: 4000}
		if !small {
			o = of(options{20, 100, false})
		}
		base, few, kept := price(o, m, prompts)
		need := uint64(base + few + kept)
		m.Memory = mem.NewBudget(2*need, "a test")
		caches, err := m.Memory.Reserve("caches", 2*need)
		if err != nil {
			t.Fatal(err)
		}
		asked := uint64(0)
		m.Spare = func(n uint64) uint64 {
			asked += n
			if err := caches.Resize(0); err != nil {
				t.Error(err)
			}
			return n
		}
		l, err := newLedger(m, o, prompts, 0)
		if small != (err == nil) || small != (asked == 1<<20) || !small && asked != 0 {
			t.Errorf("small %v: %v, %d bytes were asked for", small, err, asked)
		}
		if err == nil {
			if other, err := newLedger(m, o, prompts, 0); err != nil || asked != 1<<20 {
				t.Errorf("another, for which there is room: %v, %d asked for", err, asked)
			} else {
				other.close()
			}
			l.close()
		}
	}
}

// What does not fit in whole steps is held as it is, and given back once it is two steps too much.
func TestLedgerBesideSteps(t *testing.T) {
	const mb = 1 << 20
	budget := mem.NewBudget(6*mb+mb/2, "a test")
	taken, err := budget.Reserve(answersPurpose, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{taken: taken, from: budget, open: true}
	for _, tt := range []struct{ add, want int }{
		{6*mb + mb/4, 6*mb + mb/4}, {-mb - mb/4, 6*mb + mb/4}, {-mb, 4 * mb}, {2*mb + mb/2, 6*mb + mb/2},
	} {
		if tt.add >= 0 && !l.Hold(tt.add) {
			t.Fatalf("no room for %d", tt.add)
		}
		if tt.add < 0 {
			l.drop(-tt.add)
		}
		if got := int(taken.Bytes()); got != tt.want {
			t.Errorf("after %+d, %d in use: %d bytes reserved, want %d", tt.add, l.held, got, tt.want)
		}
	}
	if l.Hold(1) || l.held != 6*mb+mb/2 {
		t.Errorf("one more than there is, %d in use", l.held)
	}
	// A large one leaves some to small ones.
	budget = mem.NewBudget(10*mb, "a test")
	if taken, err = budget.Reserve(answersPurpose, 0); err != nil {
		t.Fatal(err)
	}
	l = &ledger{taken: taken, from: budget, open: true, spare: 2 * mb}
	if !l.Hold(8*mb) || l.Hold(1) || int(taken.Bytes()) != 8*mb {
		t.Errorf("%d bytes of 10 MB, of which 2 are spare", taken.Bytes())
	}
	small, err := budget.Reserve(answersPurpose, 0)
	if err != nil {
		t.Fatal(err)
	}
	l = &ledger{taken: small, from: budget, open: true, spare: 2 * mb}
	if !l.Hold(mb) || l.Hold(1) || int(small.Bytes()) != mb {
		t.Errorf("a small one has %d bytes of the spare ones", small.Bytes())
	}
}

// Of a stream what was sent is given back, of a whole answer or one that is kept the events alone.
func TestCountedEvents(t *testing.T) {
	for _, tt := range []struct {
		stream, keeps bool
		left          int
	}{{false, false, 30 + 50}, {true, false, 0}, {true, true, 30 + 50}} {
		budget := mem.NewBudget(1<<20, "a test")
		taken, err := budget.Reserve(answersPurpose, 0)
		if err != nil {
			t.Fatal(err)
		}
		o := ask.NewOptions(&ask.Model{})
		o.Stream = tt.stream
		g := &Generation{Opts: &o, Keeps: tt.keeps, Ledger: &ledger{taken: taken, from: budget, open: true}}
		if !g.Ledger.Hold(7 + 30 + 11 + 50) {
			t.Fatal("no room")
		}
		if g.count([]Event{{frame: 7, content: 30}, {frame: 11, content: 50}}); g.Ledger.held != tt.left {
			t.Errorf("%+v: %d are held", tt, g.Ledger.held)
		}
	}
}

// The prompt of several answers counts once; the thoughts and tokens of each.
func TestUsedOfSeveral(t *testing.T) {
	var u Used
	for i, thought := range []int{1, 2, 3, 4} {
		u.add(i%2 == 0, engine.Usage{PromptTokens: 10 + i, CachedTokens: 3 + i, Generated: 100 + i}, thought)
	}
	if want := (Used{Prompt: 10 + 12, Cached: 3 + 5, Generated: 406, Thought: 10}); u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
}

// Texts together have so many tokens at most, each of which takes memory with what the body has.
func TestTokenStore(t *testing.T) {
	m := &ask.Model{Ctx: 1000, Memory: mem.NewBudget(1<<20, "a test")}
	req := &Request{Model: m, Body: make([]byte, 500)}
	s := req.TokenStore()
	s.Release() // of nothing
	for i, n := range []int{10, 1000, 0} {
		if err := s.Add(make([]int32, n)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if want := []uint64{1000 + 40, 1000 + 4040, 1000 + 4040}[i]; m.Memory.Used() != want {
			t.Errorf("%d bytes after %d, want %d", m.Memory.Used(), i, want)
		}
	}
	if s.Release(); m.Memory.Used() != 0 {
		t.Errorf("%d bytes are left", m.Memory.Used())
	}
	m.Memory = mem.NewBudget(1000+4*100, "a test")
	s = req.TokenStore()
	e := (*reply.Error)(nil)
	if err := s.Add(make([]int32, 100)); err != nil {
		t.Error(err)
	}
	if err := s.Add(make([]int32, 1)); !errors.As(err, &e) || e.Status != 429 || e.Retry != retryMemory {
		t.Errorf("%v", err)
	}
	s.Release()
}

// An answer of numbers takes 28 bytes for each, twice, and a request's.
func TestMemoryOfNumbers(t *testing.T) {
	m := &ask.Model{Memory: mem.NewBudget(2*64<<10+1000*2*28, "a test")}
	release, err := holdNumbers(m, 1000)
	if err != nil || m.Memory.Free() != 0 {
		t.Fatalf("%v, %d are free", err, m.Memory.Free())
	}
	if release(); m.Memory.Used() != 0 {
		t.Errorf("%d are left", m.Memory.Used())
	}
	e := (*reply.Error)(nil)
	if _, err := holdNumbers(m, 1001); !errors.As(err, &e) || e.Status != 429 || e.Retry != retryMemory {
		t.Errorf("%v", err)
	}
}
