package answer

import (
	"fmt"
	"net/http"
	"sync"
	"time"
	"unsafe"

	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// What a request buffers until its client has read it is counted against the memory
// budget. The most that its log-probabilities can take is reserved before work begins;
// the rest is small and reserved as it comes. So neither large requests nor slow
// readers exceed the available memory. A stream reserves less at first, since most of
// it is sent before the rest comes.

// answersPurpose is the name of these reservations in the budget.
const answersPurpose = "answers"

// Prices, in bytes. They allow for the garbage collector, which lets garbage grow to
// the size of the live heap, and for the growth of slices.
const (
	slack         = 2
	requestBytes  = slack * (64 << 10) // encoded but not yet sent
	sequenceBytes = slack * (4 << 10)  // a sequence that has generated nothing
	eventBytes    = slack * 2 * int(unsafe.Sizeof(Event{}))
	tokenBytes    = slack * 2 * int(unsafe.Sizeof(generate.Token{}))
	probBytes     = slack * int(unsafe.Sizeof(generate.Token{}.Logprob))
	probJSONBytes = slack * 256   // of a token while it is encoded
	keptBytes     = slack * 2 * 4 // of a token that is kept, see Kept
	fewTokens     = 64            // of a request, reserved before it begins: a short answer does not fail on the way

	streamBytes = 8 << 20 // reserved for log-probabilities when a stream begins
	stepBytes   = 1 << 20 // the granularity of later reservations
	smallBytes  = 1 << 20 // requests up to this size may use the last eighth of the memory for answers
)

// A ledger is what a request has reserved of the budget. Its methods are safe for
// concurrent use; without a budget they do nothing.
type ledger struct {
	mu    sync.Mutex
	taken *mem.Reservation // nil: there is no budget
	spare uint64           // bytes reserved for small requests
	from  *mem.Budget
	open  bool
	floor int // minimum reservation, in bytes
	held  int // bytes in use
}

// ErrAnswers ends an answer that has outgrown the available memory.
var ErrAnswers = &reply.Error{
	Status: http.StatusServiceUnavailable, Retry: retryMemory,
	Message: "the memory for answers is used up: this one is generated faster than it is read, or there are many; ask " +
		"for fewer answers, tokens or log-probabilities, or try again later",
}

// retryMemory is an estimate: memory is released when an answer is sent.
const retryMemory = 2 * time.Second

// newLedger reserves what a request needs before it begins. body is the length of its body, whose texts are kept,
// and of texts of documents that are kept.
func newLedger(m *ask.Model, o *ask.Options, prompts [][]int32, body int) (*ledger, error) {
	if m.Memory == nil {
		return &ledger{}, nil
	}
	base, few, probs := price(o, m, prompts)
	if o.Stream {
		probs = min(probs, streamBytes)
	}
	base += slack * body
	need := uint64(base + few + probs)
	if m.Memory.Free() < need && need <= smallBytes && m.Spare != nil {
		m.Spare(smallBytes) // caches may have all the rest, and can do without this
	}
	free := m.Memory.Free()
	all := free + m.Memory.ByPurpose()[answersPurpose]
	l := &ledger{from: m.Memory, spare: all / 8, open: true, floor: int(need), held: base}
	var err error
	if l.taken, err = m.Memory.Reserve(answersPurpose, 0); err == nil && l.resize(l.floor) {
		return l, nil
	}
	e := &reply.Error{
		Status: http.StatusTooManyRequests, Retry: retryMemory,
		Message: fmt.Sprintf("the answers may take %s of memory, and %s are free now; try again later, or ask for less",
			mem.FormatBytes(need), mem.FormatBytes(free)),
	}
	// a small one fits when others have ended
	if limit, _ := m.Memory.Limit(); need > all-l.spare && need > min(smallBytes, limit) {
		e = reply.Bad("the answers may take %s of memory, and there are %s for those of all requests; ask for less",
			mem.FormatBytes(need), mem.FormatBytes(all-l.spare))
	}
	e.Message += fmt.Sprintf(" (n is %d, n_probs %d, and up to %d tokens are wanted of each answer)", o.N, max(o.Probs, 0),
		most(o, m, prompts))
	if !o.Stream && o.Probs >= 0 {
		e.Message += ", or for a stream"
	}
	return nil, e
}

// resize changes the reservation to n bytes, and reports whether there is enough memory for that. Large requests leave
// some to small ones.
func (l *ledger) resize(n int) bool {
	now := l.taken.Bytes()
	if grow := uint64(n) - now; uint64(n) > now && n > smallBytes && l.from.Free() < grow+l.spare {
		return false
	}
	return l.taken.Resize(uint64(n)) == nil
}

// Hold adds n bytes to those in use. It returns false, and adds nothing, if there is no
// memory for them or the ledger is closed.
func (l *ledger) Hold(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken == nil {
		return true
	}
	if !l.open || !l.fit(l.held+n) {
		return false
	}
	l.held += n
	return true
}

// drop subtracts n bytes from those in use.
func (l *ledger) drop(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken == nil || !l.open {
		return
	}
	l.held -= n
	l.fit(l.held) // shrinking never fails
}

// fit adjusts the reservation to n bytes, in whole steps, with hysteresis when it
// shrinks.
func (l *ledger) fit(n int) bool {
	want := max(l.floor, (n+stepBytes-1)/stepBytes*stepBytes)
	now := int(l.taken.Bytes())
	if want <= now && want+2*stepBytes > now {
		return true
	}
	return l.resize(want) || l.resize(max(l.floor, n)) // in steps, if memory is not that short
}

// close releases the whole reservation. Later calls of hold return false.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
	if l.taken != nil {
		l.taken.Release()
	}
}

// tokenPrice is the memory of a token.
func tokenPrice(t *generate.Token) int { return tokenBytes + cap(t.Top)*probBytes }

// price is the memory of a piece: its text, and its tokens.
func (p *Piece) price() (text, tokens int) {
	for _, d := range p.deltas {
		text += slack * (int(unsafe.Sizeof(d)) + 2*len(d.Content) + 2*len(d.Reasoning))
		if c := d.Call; c != nil {
			text += slack * (int(unsafe.Sizeof(*c)) + 2*len(c.ID) + 2*len(c.Name) + 2*len(c.Arguments))
		}
	}
	for i := range p.Tokens {
		tokens += tokenPrice(&p.Tokens[i])
	}
	for _, said := range p.said {
		tokens += len(said) * tokenBytes
	}
	return text, tokens
}

// price returns what a request takes at first, what a short answer or the beginning of one takes, and the most that its
// log-probabilities can take.
func price(o *ask.Options, m *ask.Model, prompts [][]int32) (base, few, probs int) {
	base = requestBytes
	tokens := 0
	if o.Probs >= 0 {
		base += o.Probs * probJSONBytes
	}
	for _, p := range prompts {
		base += o.N*sequenceBytes + 4*len(p)
		if o.PromptProbs >= 0 {
			base += o.N * len(p) * (tokenBytes + o.PromptProbs*probBytes)
		}
		if o.PromptProbs >= 0 && o.Stream { // they are one event
			base += len(p) * (1 + o.PromptProbs) * probJSONBytes
		}
		tokens += min(o.N*most(o, m, [][]int32{p}), fewTokens)
		probs += o.N * most(o, m, [][]int32{p}) * max(o.Probs, 0) * probBytes
	}
	return base, min(tokens, fewTokens) * (tokenBytes + eventBytes), probs
}

// most is the maximum number of tokens of an answer.
func most(o *ask.Options, m *ask.Model, prompts [][]int32) int {
	n := 0
	for _, p := range prompts {
		n = max(n, m.Ctx-len(p))
	}
	switch {
	case o.MaxTokens >= 0 && m.Shifts && o.Shift:
		n = o.MaxTokens
	case o.MaxTokens >= 0:
		n = min(n, o.MaxTokens)
	}
	return n
}
