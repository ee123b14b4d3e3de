package constrain

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/grammar"
)

// A cache keeps the most recently used automata.
type cache struct {
	mu    sync.Mutex
	items map[[sha256.Size]byte]*cached
	turn  uint64
}

type cached struct {
	turn chan struct{} // has an element while somebody compiles it
	done atomic.Bool   // a and err are set
	a    *Automaton
	err  error
	used uint64
}

// A vocabulary keeps at most maxCached automata, each with at most maxBytes beside its program, and so many that their
// programs have at most maxPrograms bytes, or one.
const (
	maxCached   = 16
	maxPrograms = 64 << 20
)

// Compile returns the automaton of a grammar for the vocabulary. Recently compiled grammars are cached by
// their contents. The grammar must not change afterwards. What is done counts as its work; where that ends, nothing is
// cached.
func (v *Vocabulary) Compile(g *grammar.Grammar) (*Automaton, error) { return v.CompileFor("", g) }

// CompileFor is Compile within a namespace: that a grammar is compiled already, which takes a fraction of the time,
// says only that it was compiled in the namespace before.
func (v *Vocabulary) CompileFor(namespace string, g *grammar.Grammar) (*Automaton, error) {
	key, err := digest(namespace, g)
	if err != nil {
		return nil, err
	}
	c := &v.cache
	c.mu.Lock()
	if c.items == nil {
		c.items = map[[sha256.Size]byte]*cached{}
	}
	item := c.items[key]
	if item == nil {
		item = &cached{turn: make(chan struct{}, 1)}
		c.items[key] = item
	}
	c.turn++
	item.used = c.turn
	c.bound()
	c.mu.Unlock()
	// One compiles it, and the others wait. Where its work ends before it is done, the next one tries.
	if err := g.Work.Wait(item.turn); err != nil {
		return nil, err
	}
	defer func() { <-item.turn }()
	if !item.done.Load() {
		a, err := newAutomaton(v, namespace, g)
		if grammar.Overran(err) {
			return nil, err
		}
		item.a, item.err = a, err
		item.done.Store(true)
		c.mu.Lock()
		c.bound()
		c.mu.Unlock()
	}
	return item.a, item.err
}

// bound drops the automata that were not used for the longest time.
func (c *cache) bound() {
	for {
		var oldest [sha256.Size]byte
		first, bytes := c.turn+1, 0
		for k, i := range c.items {
			if i.used < first {
				oldest, first = k, i.used
			}
			if i.done.Load() && i.a != nil {
				bytes += i.a.size()
			}
		}
		if len(c.items) <= maxCached && (bytes <= maxPrograms || len(c.items) == 1) {
			return
		}
		delete(c.items, oldest)
	}
}

// CachedBytes returns the memory of the programs, states and masks of the cached automata, and of the stacks of texts. An
// automaton in use counts as it was before.
func (v *Vocabulary) CachedBytes() (bytes uint64) {
	bytes = uint64(max(v.stacks.Load(), 0))
	c := &v.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range c.items {
		if !item.done.Load() || item.a == nil {
			continue
		}
		a := item.a
		bytes += uint64(a.size())
		if a.mu.TryLock() {
			a.told = a.bytes + a.configs.bytes
			a.mu.Unlock()
		}
		bytes += uint64(a.told)
	}
	return bytes
}

// digest returns a hash of a namespace and a grammar's contents.
func digest(namespace string, g *grammar.Grammar) (sum [sha256.Size]byte, err error) {
	defer func() { err = refused(recover()) }()
	d := newDigester(namespace)
	d.int(len(g.Rules))
	for _, r := range g.Rules {
		d.expr(r.Expr, 0)
	}
	return d.sum(), nil
}

type digester struct {
	h      hash.Hash
	buf    []byte
	refers bool // to rules
}

func newDigester(namespace string) *digester {
	d := &digester{h: sha256.New()}
	d.int(len(namespace))
	d.buf = append(d.buf, namespace...)
	return d
}

func (d *digester) sum() [sha256.Size]byte {
	d.flush()
	return [sha256.Size]byte(d.h.Sum(nil))
}

func (d *digester) flush() {
	d.h.Write(d.buf)
	d.buf = d.buf[:0]
}

func (d *digester) int(n int) { d.buf = binary.AppendVarint(d.buf, int64(n)) }

func (d *digester) expr(e grammar.Expr, depth int) {
	if depth > maxNesting {
		refuse("the grammar nests more than %d deep", maxNesting)
	}
	if len(d.buf) > 1<<16 {
		d.flush()
	}
	list := func(tag byte, parts []grammar.Expr) {
		d.buf = append(d.buf, tag)
		d.int(len(parts))
		for _, part := range parts {
			d.expr(part, depth+1)
		}
	}
	switch e := e.(type) {
	case grammar.Lit:
		d.buf = append(d.buf, 'l')
		d.int(len(e))
		d.buf = append(d.buf, e...)
	case grammar.Class:
		d.buf = append(d.buf, 'c')
		d.int(len(e))
		for _, r := range e {
			d.int(int(r.Lo))
			d.int(int(r.Hi))
		}
	case grammar.Seq:
		list('s', e)
	case grammar.Alt:
		list('a', e)
	case grammar.And:
		list('&', e)
	case grammar.Not:
		list('!', []grammar.Expr{e.Expr})
	case grammar.Repeat:
		d.buf = append(d.buf, 'r')
		d.int(e.Min)
		d.int(e.Max)
		d.expr(e.Expr, depth+1)
	case grammar.Limit:
		d.buf = append(d.buf, 'm')
		d.int(e.Tokens)
		d.expr(e.Expr, depth+1)
	case grammar.Ref:
		d.refers = true
		d.buf = append(d.buf, 'f')
		d.int(int(e))
	case grammar.Token:
		d.buf = append(d.buf, 't')
		if e.Not {
			d.buf = append(d.buf, '!')
		}
		d.int(len(e.IDs))
		for _, id := range e.IDs {
			d.int(int(id))
		}
	default:
		refuse("the grammar has an expression of type %T", e)
	}
}
