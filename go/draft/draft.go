// Package draft proposes draft tokens, so that one pass over a model can verify several tokens.
//
// A Drafter guesses for one text. It looks for earlier occurrences of the last tokens of the text, in the text
// itself and in recent texts of the same tenant, and guesses that the text continues as it did there. The
// acceptance rate of guesses is measured: each token that the text continues with is compared with what would
// have been guessed, whether or not that was verified in a pass, so it costs no pass to find that a text cannot
// be predicted.
//
// The package deals in token ids. Nothing in it is safe for concurrent use.
package draft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Source is the origin of a guess.
type Source uint8

const (
	Forced Source = iota // by a constraint: grammar, JSON schema, tools
	NGram                // from the text itself
	Recent               // from recent texts of the tenant
	MTP                  // by MTP layers of the model itself
	Model                // by a draft model
	Replay               // from a record of the text, for measurements
	Head                 // by a head: layers of another file that read the model's hidden states
	sources
)

// Sources is the number of sources.
const Sources = int(sources)

var names = [sources]string{"grammar", "ngram", "recent", "mtp", "model", "replay", "head"}

func (s Source) String() string { return names[s] }

// A Guess is a token that may follow a text and the guesses on the path to it. A list of guesses is a tree: each
// follows the one before it in the list, or one further back, its parent.
type Guess struct {
	ID     int32
	Chance float64 // that it is right if those on the path to it are; the sum over siblings is at most 1
	Source Source
	Back   int // how many guesses of the list are between it and its parent
}

// Before returns the parent of guess i, -1 if it follows the text directly.
func Before(list []Guess, i int) int { return i - 1 - list[i].Back }

// Keep returns the guesses for which keep is true, if their ancestors are kept too.
func Keep(list []Guess, keep func(i int) bool) []Guess {
	place := make([]int, len(list)) // index in kept plus 1; 0: not kept
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

// Ordered returns the list depth first, with the likeliest of siblings first.
func Ordered(list []Guess) []Guess {
	if !slices.ContainsFunc(list, func(g Guess) bool { return g.Back > 0 }) {
		return list
	}
	follow := make([][]int, len(list)+1) // the children of each guess; index 0: of the text
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

// Best returns the guesses most likely to be accepted, at most `most`.
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

// Counts counts the verified guesses, by source.
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

// All is the set of sources used by default, where they exist.
const All = Set(1<<NGram | 1<<Recent | 1<<MTP | 1<<Model | 1<<Head)

// Has reports whether s is in the set.
func (t Set) Has(s Source) bool { return t&(1<<s) != 0 }

// theirs has llama.cpp's names of kinds of speculation.
var theirs = map[string]Set{
	"none": 0, "ngram-simple": 1 << NGram, "ngram-map-k": 1 << NGram, "ngram-map-k4v": 1 << NGram,
	"ngram-mod": 1<<NGram | 1<<Recent, "ngram-cache": 1<<NGram | 1<<Recent, "draft-simple": 1 << Model, "draft-mtp": 1<<MTP | 1<<Head,
	"draft-eagle3": 1 << Head, "draft-dflash": 1 << Head,
}

// ParseSet parses auto, off, or a comma-separated list of sources. It accepts llama.cpp's names too.
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

// String returns the set in the syntax of ParseSet.
func (t Set) String() string {
	switch t {
	case All:
		return "auto"
	case 0:
		return "off"
	}
	return strings.Join(named(t), ",")
}

// MaxGuesses is the maximum number of guesses at a time.
const MaxGuesses = 31

// Options configures a Drafter. The zero value guesses nothing.
type Options struct {
	Sources   Set
	Max       int        // maximum guesses at a time
	Min       int        // minimum guesses at a time: fewer are dropped
	MinChance float32    // minimum chance of a guess
	Record    *Recording // if not nil, the only source
}

// Defaults uses all sources.
var Defaults = Options{Sources: All, Max: 16}

// A Drafter guesses how one text goes on.
type Drafter struct {
	Options
	told    int // tokens of the text that were accepted
	lookups []lookup
	tail    []int32 // scratch
}

// A lookup guesses from one history.
type lookup struct {
	source  Source
	in      *history
	own     bool // the history is the text's own and is extended with it
	all     *record
	mine    ledger
	last    match // for the next token
	guessed int32 // the guess at the next token; -1: none

	// Statistics of second guesses, the tokens that follow at another place with a different continuation, over
	// the tokens where the first guess is wrong.
	rivals *record
	beside ledger
	rival  int32 // the second guess at the next token; -1: none
}

// Bytes returns the maximum memory of a Drafter for a text of so many tokens.
func Bytes(tokens int) int { return historyBytes(min(tokens, maxOwn)) }

// maxOwn is how many of the last tokens of its text a Drafter remembers.
const maxOwn = 1 << 17

// New returns a Drafter for a text in a namespace of the library.
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

// Accept tells the Drafter the text, which continues the one of the last call. The text of the first call, except
// for its last token, is learned but does not count in the statistics: it was written by others.
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

// Draft appends guesses at what follows the text and the forced tokens to dst.
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
	// The second continuation replaces the last guesses of the first.
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
	// rivalPart is the inverse of the maximum share of second guesses.
	rivalPart = 4
	// leastRival is the minimum chance of the first of them.
	leastRival = 0.05
)

// follow appends up to n guesses that follow a match; the first has the given chance.
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

// score records whether the last guess was right, and whether the second guess was.
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

// rivalChance is the chance that a second guess is right if the first is wrong.
func (l *lookup) rivalChance(r place) float64 {
	k := r.kind()
	return min(l.beside.chance(k, l.rivals.chance(k, k.prior())), mostLikely)
}

// chance is the chance that a guess of a kind is right: the rate in this text, with that in all texts as the
// prior.
func (l *lookup) chance(k kind) float64 {
	return min(l.mine.chance(k, l.all.chance(k, k.prior())), mostLikely)
}

// mostLikely is the maximum chance: what was right a hundred times may still be wrong.
const mostLikely = 0.98
