package constrain

import (
	"bytes"
	"slices"
)

// Elements of an array of JSON may have to differ (grammar.Distinct). Whether one does depends on all that was written
// before, so it is no part of the automaton: the node below the state to which such an array returns has the place where
// the array begins (node.from), and what was written from there on is an arrayText. Where an element ends that is the same
// value as one before, the stacks with that array are dropped. The masks of states know nothing of it. What is allowed
// too much by them are the tokens along the beginnings of texts of the elements that were written, which few are, and
// those that begin another element after a comma. Of an object whose names differ, the names are the elements.

// An arrayText is what is known of the text of an array whose elements differ, or of an object whose names do. It is
// immutable.
type arrayText struct {
	names   bool  // it is an object
	value   bool  // of which a member's value is being written
	from    int32 // the bytes of the text up to where it begins, with its bracket
	depth   int32 // of brackets open in it, its own too
	quoted  bool  // within a string
	escaped bool  // after a backslash
	fresh   bool  // there is nothing of an element but white space
	begun   int   // where the element begins, or a member's value
	used    []*jsonValue
	tries   []cursor // elements before that this one may be the same as, unless it is fresh
}

func newArrayText(from int32, names bool) arrayText {
	return arrayText{names: names, from: from, depth: 1, fresh: true, begun: int(from)}
}

// close reports whether the element may yet become the same as another.
func (x *arrayText) close() bool { return len(x.tries) > 0 || x.fresh && len(x.used) > 0 }

// same reports whether the element is the same as another, if it ends.
func (x *arrayText) same() bool {
	return slices.ContainsFunc(x.tries, func(c cursor) bool { return c.whole() })
}

// ends reports whether a byte ends an element.
func (x *arrayText) ends(b byte) bool {
	if x.quoted || x.depth != 1 {
		return false
	}
	if x.names {
		return b == ':' && !x.value
	}
	return b == ',' || b == ']'
}

// after returns the text after a byte; text is all before. It returns false after the array, and where the text is none.
func (x arrayText) after(w *walker, b byte, text []byte) (arrayText, bool) {
	switch {
	case x.escaped:
		x.escaped = false
	case x.quoted && b == '\\':
		x.escaped = true
	case b == '"':
		x.quoted = !x.quoted
	case x.quoted:
	case b == '[' || b == '{':
		x.depth++
	case b == ']' || b == '}':
		if x.depth--; x.depth == 0 {
			return x, false
		}
	case b == ',' && x.depth == 1 && x.names:
		x.value, x.fresh, x.begun = false, true, len(text)+1
		return x, true
	case x.ends(b): // and it is no bracket
		element := text[x.begun:]
		w.spend(len(element))
		v := parseJSON(element)
		w.made += 4*len(element) + 128
		x.used = append(x.used[:len(x.used):len(x.used)], v)
		x.value = x.names
		x.fresh, x.tries, x.begun = !x.value, nil, len(text)+1
		return x, v != nil
	}
	if x.fresh && isSpace(b) {
		return x, true
	}
	n := len(x.tries)
	if x.fresh {
		n = len(x.used)
	}
	var tries []cursor
	for i := range n {
		c := cursor{}
		if x.fresh {
			c.v = x.used[i]
		} else {
			c = x.tries[i]
		}
		if c, ok := c.after(b); ok {
			tries = append(tries, c)
		}
	}
	w.spend(2 * n)
	x.fresh, x.tries = false, tries
	return x, true
}

// again returns the text without what follows from its bytes.
func (x arrayText) again() arrayText {
	x.depth, x.quoted, x.escaped, x.fresh, x.tries = 1, false, false, !x.value, nil
	return x
}

// A spot is a place in a text with the arrays around it whose elements differ.
type spot struct {
	heads  []head // closed
	arrays []arrayText
}

// spotAfter returns the spot after a byte; text is all before.
func (w *walker) spotAfter(at spot, b byte, text []byte) (to spot) {
	heads := at.heads
	for i := range at.arrays {
		if x := &at.arrays[i]; x.ends(b) && x.same() {
			heads = w.without(heads, x.from)
		}
	}
	w.begins, w.began = int32(len(text))+1, false
	to.heads = w.close(w.step(nil, heads, b), 0)
	w.begins = 0
	if len(to.heads) == 0 {
		return to
	}
	for _, x := range at.arrays {
		if x, ok := x.after(w, b, text); ok {
			to.arrays = append(to.arrays, x)
		}
	}
	if w.began {
		to.arrays = append(to.arrays, newArrayText(int32(len(text))+1, b == '{'))
	}
	return to
}

// without returns heads without the stacks in which is the array that begins at a place.
func (w *walker) without(heads []head, from int32) []head {
	var kept []head
	known := map[*node]*node{}
	for _, h := range heads {
		if n := w.outside(h.n, from, known); n != nil {
			kept = append(kept, head{h.s, n})
		}
	}
	return kept
}

// outside returns a node without the stacks in which is an array; nil if none is left.
func (w *walker) outside(n *node, from int32, known map[*node]*node) *node {
	return w.dropping(n, known, func(n *node) bool { return n.arrays }, func(below *node) bool { return below.from == from })
}

// close reports whether an array around the spot may yet have the same element twice.
func (at *spot) close() bool {
	return slices.ContainsFunc(at.arrays, func(x arrayText) bool { return x.close() })
}

// maxAlive limits how many places are looked at to find a way on from one.
const maxAlive = 1 << 8

// goesOn reports whether a text goes on from a spot so that no element becomes the same as one before. Where that takes
// long to find, it is taken to.
func (w *walker) goesOn(at spot, text []byte) bool {
	left := maxAlive
	return w.leaves(at, slices.Clip(text), &left)
}

// leaves is goesOn, within a number of places.
func (w *walker) leaves(at spot, text []byte, left *int) bool {
	if *left--; !at.close() || *left < 0 {
		return true
	}
	base := len(text)
	text = append(text, 0)
	try := func(b byte) (some, is bool) {
		if len(w.step(nil, at.heads, b)) == 0 {
			return false, false
		}
		to := w.spotAfter(at, b, text[:base])
		text[base] = b
		return true, len(to.heads) > 0 && w.leaves(to, text, left)
	}
	quoted, some := at.arrays[0].quoted, false
	for _, b := range soonest {
		if !quoted && isSpace(b) {
			continue
		}
		any, is := try(b)
		if is {
			return true
		}
		some = some || any
	}
	for _, b := range []byte(" \n\t\r") { // that white space may come does not help, unless it has to
		if quoted || some {
			break
		}
		if _, is := try(b); is {
			return true
		}
	}
	return false
}

// soonest is all bytes, those first that end values.
var soonest = func() (all []byte) {
	all = []byte(`"]},:`)
	for b := range 256 {
		if !slices.Contains(all, byte(b)) {
			all = append(all, byte(b))
		}
	}
	return all
}()

// differ removes from next the tokens after which an element of an array would be the same as another.
func (t *text) differ(heads []head, next Set) {
	a := t.a
	d := differing{t: t, next: next, text: t.said}
	at := spot{t.closed(heads), t.arrays}
	at.heads = slices.Clone(at.heads)
	if at.close() {
		d.walk(at, 1, a.v.trie().nodes[0].next, len(t.said))
	}
	d.begin(at)
}

// differing is the work of differ.
type differing struct {
	t    *text
	next Set
	text []byte
}

// walk removes tokens of a range of nodes, the texts of which follow as many bytes.
func (d *differing) walk(at spot, i, end int32, said int) {
	w := &d.t.a.w
	trie := d.t.a.v.trie()
	for ; i < end; i = trie.nodes[i].next {
		n := &trie.nodes[i]
		to := w.spotAfter(at, n.byte, d.text[:said])
		d.text = append(d.text[:said], n.byte)
		switch {
		case len(to.heads) == 0:
			for _, id := range trie.all(i) {
				d.remove(at, id)
			}
			continue
		case !to.close():
			continue
		}
		if own := trie.own(i); slices.ContainsFunc(own, d.next.Has) && !w.goesOn(to, d.text) {
			for _, id := range own {
				d.remove(at, id)
			}
		}
		d.walk(to, i+1, n.next, said+1)
	}
}

// begin removes tokens that begin another element of an array. They are sorted, so many begin as the one before does.
func (d *differing) begin(at spot) {
	w, v := &d.t.a.w, d.t.a.v
	quoted := len(d.t.arrays) > 0 && d.t.arrays[0].quoted
	said := len(d.t.said)
	spots, last := []spot{at}, []byte(nil) // after each byte of the last one, as far as it may come
	for _, id := range v.commas() {
		piece := v.piece(id)
		if !d.next.Has(id) || !d.mayBegin(piece, quoted) {
			continue
		}
		n := 0
		for n < min(len(last), len(piece), len(spots)-1) && last[n] == piece[n] {
			n++
		}
		spots, d.text = spots[:n+1], append(d.text[:said], piece...)
		for ; n < len(piece) && len(spots[n].heads) > 0; n++ {
			spots = append(spots, w.spotAfter(spots[n], piece[n], d.text[:said+n]))
		}
		last = piece
		if to := spots[n]; len(to.heads) == 0 || to.close() && !w.goesOn(to, d.text) {
			d.remove(at, id)
		}
	}
}

// remove removes a token, unless it comes as a token rather than by its bytes.
func (d *differing) remove(at spot, id int32) {
	if !d.next.Has(id) {
		return
	}
	w := &d.t.a.w
	if len(d.t.a.tokens) > 0 && len(w.advance(nil, at.heads, func(h head) { w.name(h, id) })) > 0 {
		return
	}
	d.next.Remove(id)
}

// mayBegin reports whether a token with a comma may begin another element of an array: within a string its quote has to
// come first, and outside of arrays a bracket.
func (d *differing) mayBegin(piece []byte, quoted bool) bool {
	before := byte(0)
	switch {
	case quoted:
		before = '"'
	case len(d.t.arrays) == 0:
		before = '['
	default:
		return true
	}
	i := slices.Index(piece, before)
	return i >= 0 && slices.Contains(piece[i:], ',')
}

// findCommas returns the tokens with a comma, sorted by their bytes.
func (v *Vocabulary) findCommas() (ids []int32) {
	for id := range int32(v.n) {
		if slices.Contains(v.piece(id), ',') {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int32) int { return bytes.Compare(v.piece(a), v.piece(b)) })
	return ids
}

// renew makes the arrays around the text anew after a step back.
func (t *text) renew() {
	if !t.stale {
		return
	}
	t.stale = false
	arrays := t.arrays
	t.arrays = nil
	for _, x := range arrays {
		is := true
		for i := x.begun; i < len(t.said) && is; i++ {
			x, is = x.after(&t.a.w, t.said[i], t.said[:i])
		}
		if is {
			t.arrays = append(t.arrays, x)
		}
	}
}

// pared returns arrays without what renew makes.
func pared(arrays []arrayText) []arrayText {
	out := slices.Clone(arrays)
	for i := range out {
		out[i] = out[i].again()
	}
	return out
}

// spell returns the spot after a token by its bytes, without heads if it can't come so.
func (t *text) spell(heads []head, id int32) (at spot) {
	w := &t.a.w
	piece := t.a.v.piece(id)
	at = spot{slices.Clone(heads), t.arrays}
	if !t.a.takes(id) { // it may come as a token, which is none of an array's bytes
		return spot{nil, at.arrays}
	}
	text := append(slices.Clip(t.said), piece...)
	for n := range piece {
		if at = w.spotAfter(at, piece[n], text[:len(t.said)+n]); len(at.heads) == 0 {
			return spot{nil, t.arrays}
		}
	}
	if at.close() && !w.goesOn(at, text) {
		return spot{nil, t.arrays}
	}
	return at
}
