// Package draft guesses how texts go on, so that a pass over a model can verify several
// tokens at once.
//
// A Drafter guesses for one text. It looks for the last tokens of the text where they
// occurred before, in the text itself and in recent texts of the same tenant, and guesses that
// it goes on as it did there. How likely a guess is to be right is measured: each token
// that the text goes on with is compared with what would have been guessed, whether
// or not that was verified in a pass, so a text that cannot be guessed costs no pass to tell.
//
// The package deals in token ids. Nothing in it is safe for concurrent use.
package draft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Source is where a guess comes from.
type Source uint8

const (
	Forced Source = iota // by the form that the text is held to
	NGram                // by the text itself
	Recent               // by recent texts of the tenant
	MTP                  // by layers of the model itself that predict further tokens
	Model                // by a draft model
	Replay               // by a record of the text, to measure with
	Head                 // by layers in another file that read the model's hidden states
	sources
)

// Sources is the number of sources.
const Sources = int(sources)

var names = [sources]string{"grammar", "ngram", "recent", "mtp", "model", "replay", "head"}

func (s Source) String() string { return names[s] }

// A Guess is a token that may follow a text and the guesses before it. A list of guesses is a tree: each follows the one before it
// in the list, or one further back.
type Guess struct {
	ID     int32
	Chance float64 // that it is right where those before it are; of all that follow the same these add up to 1 at most
	Source Source
	Back   int // how many guesses of the list lie between it and the one that it follows
}

// Before returns the guess of a list that guess i follows, -1 where it follows the text.
func Before(list []Guess, i int) int { return i - 1 - list[i].Back }

// Keep returns a list of those guesses of which keep says so, as far as those before them are kept.
func Keep(list []Guess, keep func(i int) bool) []Guess {
	place := make([]int, len(list)) // of those that are kept, and one more
	kept := make([]Guess, 0, len(list))
	for i, g := range list {
		b, at := Before(list, i), 0
		if b >= 0 {
			at = place[b]
		}
		if b >= 0 && at == 0 || !keep(i) {
			continue
		}
		g.Back = len(kept) - at
		kept = append(kept, g)
		place[i] = len(kept)
	}
	return kept
}

// Ordered returns a list in which, of the guesses that follow the same one, the likeliest comes first, with all that follows it.
func Ordered(list []Guess) []Guess {
	if !slices.ContainsFunc(list, func(g Guess) bool { return g.Back > 0 }) {
		return list
	}
	follow := make([][]int, len(list)+1) // each, from the text on
	for i := range list {
		b := Before(list, i) + 1
		follow[b] = append(follow[b], i)
	}
	ordered := make([]Guess, 0, len(list))
	var add func(b, at int)
	add = func(b, at int) {
		slices.SortStableFunc(follow[b], func(i, j int) int { return cmp.Compare(list[j].Chance, list[i].Chance) })
		for _, i := range follow[b] {
			g := list[i]
			g.Back = len(ordered) - at
			ordered = append(ordered, g)
			add(i+1, len(ordered))
		}
	}
	add(0, 0)
	return ordered
}

// Best returns the likeliest guesses of a list, no more than most.
func Best(list []Guess, most int) []Guess {
	if len(list) <= most {
		return list
	}
	type node struct {
		reach float64
		i     int
	}
	all := make([]node, len(list))
	for i, g := range list {
		all[i] = node{g.Chance, i}
		if b := Before(list, i); b >= 0 {
			all[i].reach *= all[b].reach
		}
	}
	slices.SortStableFunc(all, func(a, b node) int { return cmp.Compare(b.reach, a.reach) })
	kept := make([]bool, len(list))
	for _, n := range all[:max(most, 0)] {
		kept[n.i] = true
	}
	return Keep(list, func(i int) bool { return kept[i] })
}

// Counts are the guesses that were verified, by source.
type Counts [sources]struct{ Guessed, Right uint64 }

// Plus returns the sums of two counts.
func (c Counts) Plus(o Counts) Counts {
	for s := range c {
		c[s].Guessed += o[s].Guessed
		c[s].Right += o[s].Right
	}
	return c
}

// Total returns the counts of all sources together.
func (c Counts) Total() (guessed, right uint64) {
	for s := range c {
		guessed, right = guessed+c[s].Guessed, right+c[s].Right
	}
	return guessed, right
}

// A Set is a set of sources.
type Set uint8

// All are the sources that are used by default, as far as they exist.
const All = Set(1<<NGram | 1<<Recent | 1<<MTP | 1<<Model | 1<<Head)

// Has reports whether s is in the set.
func (t Set) Has(s Source) bool { return t&(1<<s) != 0 }

// theirs are llama.cpp's names of kinds of speculation.
var theirs = map[string]Set{
	"none": 0, "ngram-simple": 1 << NGram, "ngram-map-k": 1 << NGram, "ngram-map-k4v": 1 << NGram,
	"ngram-mod": 1<<NGram | 1<<Recent, "ngram-cache": 1<<NGram | 1<<Recent, "draft-simple": 1 << Model, "draft-mtp": 1<<MTP | 1<<Head,
	"draft-eagle3": 1 << Head, "draft-dflash": 1 << Head,
}

// ParseSet reads names of sources with commas between them, auto or off; llama.cpp's names too.
func ParseSet(text string) (t Set, err error) {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		set, known := theirs[name]
		switch i := slices.Index(names[:], name); {
		case name == "auto":
			set = All
		case name == "off":
		case i >= 0 && All.Has(Source(i)):
			set = 1 << i
		case !known:
			return 0, fmt.Errorf("want auto, off, or some of %s with commas between them", strings.Join(named(All), ", "))
		}
		t |= set
	}
	return t, nil
}

func named(t Set) (list []string) {
	for s := range sources {
		if t.Has(s) {
			list = append(list, s.String())
		}
	}
	return list
}

// String returns the set as ParseSet reads it.
func (t Set) String() string {
	switch t {
	case All:
		return "auto"
	case 0:
		return "off"
	}
	return strings.Join(named(t), ",")
}

// MaxGuesses is the most tokens that can be guessed at a time.
const MaxGuesses = 31

// Options are the limits of a Drafter. The zero value guesses nothing.
type Options struct {
	Sources   Set
	Max       int        // guesses at a time
	Min       int        // fewer are not worth a try
	MinChance float32    // guesses end before one that is less likely
	Record    *Recording // if not nil, the only source
}

// Defaults guess from all sources.
var Defaults = Options{Sources: All, Max: 16}

// A Drafter guesses how one text goes on.
type Drafter struct {
	Options
	told    int // tokens of the text that it knows
	lookups []lookup
	tail    []int32 // scratch
}

// A lookup guesses from a history.
type lookup struct {
	source  Source
	in      *history
	own     bool // it is the text's own, and learns it
	all     *record
	mine    ledger
	last    match // for the token that is next
	guessed int32 // the token; -1: none

	// Of what follows at another place, where that is something else: right as often as the first is wrong.
	rivals *record
	beside ledger
	rival  int32 // -1: none
}

// Bytes returns the most memory that a Drafter takes for a text of so many tokens.
func Bytes(tokens int) int { return historyBytes(min(tokens, maxOwn)) }

// maxOwn is how many tokens of its text a Drafter remembers: the last.
const maxOwn = 1 << 17

// New returns a Drafter of a text in a namespace of the library.
func (l *Library) New(o Options, namespace string) *Drafter {
	o.Max = min(o.Max, MaxGuesses)
	d := &Drafter{Options: o}
	if o.Record != nil {
		return d
	}
	if o.Sources.Has(NGram) {
		d.lookups = append(d.lookups, lookup{source: NGram, in: newHistory(maxOwn), own: true, all: &l.records[NGram], guessed: -1, rivals: &l.rivals[NGram], rival: -1})
	}
	if h := l.shelf(namespace); h != nil && o.Sources.Has(Recent) {
		d.lookups = append(d.lookups, lookup{source: Recent, in: h, all: &l.records[Recent], guessed: -1, rivals: &l.rivals[Recent], rival: -1})
	}
	return d
}

// Accept tells the Drafter what the text is now: what it was, and some more. What it is told first is learned, and not
// guessed: that was written by others.
func (d *Drafter) Accept(text []int32) {
	if d.told == 0 && len(text) > 0 {
		d.told = len(text) - 1
		for i := range d.lookups {
			if l := &d.lookups[i]; l.own {
				for _, id := range text[:d.told] {
					l.in.push(id)
				}
			}
		}
	}
	for ; d.told < len(text); d.told++ {
		tail := text[max(d.told+1-maxMatch, 0) : d.told+1]
		for i := range d.lookups {
			l := &d.lookups[i]
			if l.guessed >= 0 {
				l.score(l.guessed == text[d.told], l.rival == text[d.told])
			}
			if l.own {
				l.in.push(text[d.told])
			}
			on := -1
			if l.guessed == text[d.told] {
				on = l.last.pos + 1
			}
			l.guessed, l.rival = -1, -1
			if l.last = l.in.find(tail, on); l.last.length > 0 {
				l.guessed = l.in.after(l.last)
			}
			if l.last.rival.length > 0 {
				l.rival = l.in.at(l.last.rival.pos + 1)
			}
		}
	}
}

// Draft appends guesses at what follows the text and then the forced tokens to dst.
func (d *Drafter) Draft(dst []Guess, text, forced []int32) []Guess {
	n := d.Max - len(forced)
	if n <= 0 {
		return dst
	}
	if d.Record != nil {
		return d.Record.guess(dst, len(text)+len(forced), n)
	}
	d.tail = append(d.tail[:0], text[max(len(text)-maxMatch, 0):]...)
	d.tail = append(d.tail, forced...)
	var best *lookup
	var found match
	chance := 0.0
	for i := range d.lookups {
		l := &d.lookups[i]
		m := l.last
		if len(forced) > 0 {
			m = l.in.find(d.tail[max(len(d.tail)-maxMatch, 0):], -1)
		}
		if m.length == 0 {
			continue
		}
		if p := l.chance(m.kind()); p > chance {
			best, found, chance = l, m, p
		}
	}
	if best == nil {
		return dst
	}
	from := len(dst)
	dst = best.follow(dst, found, chance, n, float64(d.MinChance), len(forced))
	if len(dst)-from+len(forced) < d.Min {
		return dst[:from]
	}
	if found.rival.length == 0 {
		return dst
	}
	// What follows elsewhere takes the place of the guesses that are furthest away.
	room, other := n/rivalPart, (1-chance)*best.rivalChance(found.rival)
	most := max(n-room, d.Min-len(forced))
	if other < leastRival || other < float64(d.MinChance) || min(room, n-most) < 1 {
		return dst
	}
	dst = dst[:min(len(dst), from+most)]
	at := len(dst)
	if dst = best.follow(dst, match{place: found.rival, others: deny}, other, min(room, n-most), float64(d.MinChance), len(forced)); len(dst) > at {
		dst[at].Back = at - from
	}
	return dst
}

const (
	// rivalPart is what part of all guesses what follows elsewhere may be.
	rivalPart = 4
	// leastRival is how likely its first has to be.
	leastRival = 0.05
)

// follow appends what follows a match, of which the first has a chance, to guesses: n at most.
func (l *lookup) follow(dst []Guess, m match, chance float64, n int, least float64, forced int) []Guess {
	for id := range l.in.following(m, l.own && forced == 0) {
		if n == 0 || chance < least {
			break
		}
		dst = append(dst, Guess{ID: id, Chance: chance, Source: l.source})
		n--
		m.length++
		chance = l.chance(m.kind())
	}
	return dst
}

// score records whether the last guess was right, and its rival.
func (l *lookup) score(right, rival bool) {
	k := l.last.kind()
	l.mine.add(k, right, l.all.chance(k, k.prior()))
	l.all.add(k, right)
	if !right && l.rival >= 0 {
		k = l.last.rival.kind()
		l.beside.add(k, rival, l.rivals.chance(k, k.prior()))
		l.rivals.add(k, rival)
	}
}

// rivalChance is that what follows elsewhere is right, where the first guess is not.
func (l *lookup) rivalChance(r place) float64 {
	k := r.kind()
	return min(l.beside.chance(k, l.rivals.chance(k, k.prior())), mostLikely)
}

// chance is that a guess of a kind is right: as it is in all texts, as far as this text has shown nothing else.
func (l *lookup) chance(k kind) float64 {
	return min(l.mine.chance(k, l.all.chance(k, k.prior())), mostLikely)
}

// mostLikely is the highest chance: what was right a hundred times may be wrong.
const mostLikely = 0.98
