package constrain

import "slices"

// A config is the heads at a node of the vocabulary's trie. Most nodes have one of a few configs, which are
// found along the texts that occur: however ambiguous the grammar is, a step from one is computed once.
type config struct {
	heads    []head    // closed
	next     []*config // by class of bytes; nil: not computed
	complete bool      // the known rules may end here
}

// configs are those of an automaton, by hash. Beyond maxConfigs bytes they are forgotten.
type configs struct {
	known map[uint64]*config
	bytes int
	list  []head // scratch
}

const maxConfigs = 4 << 20

// noHeads is where no text goes on.
var noHeads = &config{}

// config returns the config of closed heads.
func (a *Automaton) config(heads []head) *config {
	if len(heads) == 0 {
		return noHeads
	}
	hash := uint64(0)
	for _, h := range heads {
		hash += h.hash()
	}
	k := &a.configs
	c := k.known[hash]
	if c == nil {
		if k.known == nil || k.bytes > maxConfigs {
			k.known, k.bytes = map[uint64]*config{}, 0
		}
		c = &config{slices.Clone(heads), make([]*config, a.classes), complete(heads)}
		k.known[hash] = c
		k.bytes += 128 + 8*a.classes + edgeBytes*len(heads)
	}
	return c
}

// at returns the config of a head.
func (a *Automaton) at(h head) *config {
	a.list = a.w.close(append(a.list[:0], h), 0)
	return a.config(a.list)
}

// after returns the config after a byte.
func (a *Automaton) after(c *config, b byte) *config {
	if len(c.heads) == 0 {
		return c
	}
	to := &c.next[a.classOf[b]]
	if *to == nil {
		made := a.w.made
		a.list = a.w.close(a.w.step(a.list[:0], c.heads, b), 0)
		*to = a.config(a.list)
		a.configs.bytes += a.w.made - made
	}
	return *to
}

// with returns a config with one more head.
func (a *Automaton) with(c *config, h head) *config {
	a.list = a.w.close(a.w.join(append(a.list[:0], c.heads...), h), 0)
	return a.config(a.list)
}
