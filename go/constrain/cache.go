package constrain

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/grammar"
)

// A cache keeps the most recently used automata.
type cache struct {
	mu    sync.Mutex
	items map[[sha256.Size]byte]*cached
	named map[any]*cached
	turn  uint64
	bytes int // of the items' programs
}

type cached struct {
	turn chan struct{} // has an element while somebody compiles it
	done atomic.Bool   // a and err are set
	a    *Automaton
	err  error

	// with the cache's lock
	used  uint64
	users int // requests that compile it, or wait for that
	bytes int // of its program
	names []any
}

// A vocabulary keeps at most maxCached automata, each with at most maxBytes beside its program, whose programs have at
// most maxPrograms bytes, or one. Those that are being compiled are kept as well.
const (
	maxCached   = 16
	maxPrograms = 64 << 20
	maxNames    = 16 // of one automaton
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
	item := v.cache.take(key)
	defer v.cache.release(key, item)
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
	}
	return item.a, item.err
}

// take returns the item of a key, which stays until it is released.
func (c *cache) take(key [sha256.Size]byte) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	item.users++
	return item
}

// release ends a request's use of an item, and counts its program if that is new.
func (c *cache) release(key [sha256.Size]byte, item *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item.users--
	switch {
	case !item.done.Load():
		if item.users == 0 { // nobody will compile it
			delete(c.items, key)
		}
	case item.a != nil && item.bytes == 0:
		item.bytes = item.a.size()
		c.bytes += item.bytes
	}
	c.bound()
}

// bound drops the automata that were not used for the longest time, of those that are not in use.
func (c *cache) bound() {
	for len(c.items) > maxCached || c.bytes > maxPrograms && len(c.items) > 1 {
		var oldest [sha256.Size]byte
		first := c.turn + 1
		for k, i := range c.items {
			if i.users == 0 && i.used < first {
				oldest, first = k, i.used
			}
		}
		if first > c.turn {
			return // when those are released
		}
		c.bytes -= c.items[oldest].bytes
		for _, name := range c.items[oldest].names {
			delete(c.named, name)
		}
		delete(c.items, oldest)
	}
}

// Name keeps an automaton under a name, which is comparable, as long as the automaton is cached: what a grammar was
// written as is hashed faster than it is read.
func (v *Vocabulary) Name(name any, a *Automaton) {
	c := &v.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range c.items {
		if !item.done.Load() || item.a != a || c.named[name] != nil {
			continue
		}
		if len(item.names) == maxNames {
			delete(c.named, item.names[0])
			item.names = slices.Delete(item.names, 0, 1)
		}
		if c.named == nil {
			c.named = map[any]*cached{}
		}
		item.names = append(item.names, name)
		c.named[name] = item
	}
}

// Named returns the automaton that has a name, nil if none has.
func (v *Vocabulary) Named(name any) *Automaton {
	c := &v.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	item := c.named[name]
	if item == nil {
		return nil
	}
	c.turn++
	item.used = c.turn
	return item.a
}

// CachedBytes returns the memory of the programs, states and masks of the cached automata, and of the stacks of texts. An
// automaton in use counts as it was before.
func (v *Vocabulary) CachedBytes() (bytes uint64) {
	c := &v.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes = uint64(max(v.stacks.Load(), 0)) + uint64(c.bytes)
	for _, item := range c.items {
		if !item.done.Load() || item.a == nil {
			continue
		}
		a := item.a
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
	case grammar.AnyOrder:
		list('o', e.Parts)
		if e.Listed {
			d.buf = append(d.buf, 'l')
		}
		d.int(e.Must)
		d.expr(e.Between, depth+1)
		if e.More != nil {
			list('+', []grammar.Expr{e.More})
		}
	case grammar.Limit:
		d.buf = append(d.buf, 'm')
		d.int(e.Tokens)
		d.expr(e.Expr, depth+1)
	case grammar.Distinct:
		if list('d', []grammar.Expr{e.Elements}); e.Names {
			d.buf = append(d.buf, 'n')
		}
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
