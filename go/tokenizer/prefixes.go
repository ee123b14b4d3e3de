package tokenizer

import (
	"slices"
	"sort"
)

// prefixes finds the vocabulary entries that a text begins with.
type prefixes struct {
	texts []string // sorted
	ids   []int32  // of these
	first [257]int // where the texts begin that begin with a byte
}

// maxPrefix limits the bytes of an entry, and so the time per position of a text.
const maxPrefix = 1024

// newPrefixes sorts the texts of index, none of which may be empty.
func newPrefixes(r *reader, index map[string]int32) prefixes {
	var p prefixes
	for text := range index {
		if len(text) > maxPrefix {
			r.fail("%stokens has one of %d bytes, want at most %d", prefix, len(text), maxPrefix)
		}
		p.texts = append(p.texts, text)
	}
	slices.Sort(p.texts)
	for _, text := range p.texts {
		p.ids = append(p.ids, index[text])
	}
	for b := range p.first {
		p.first[b] = sort.Search(len(p.texts), func(i int) bool { return int(p.texts[i][0]) >= b })
	}
	return p
}

// longest returns the bytes of the longest entry.
func (p *prefixes) longest() (n int) {
	for _, text := range p.texts {
		n = max(n, len(text))
	}
	return n
}

// each visits the entries that a non-empty text begins with: their numbers and lengths, shortest first.
func (p *prefixes) each(text string, visit func(i, n int)) {
	lo, hi := p.first[text[0]], p.first[int(text[0])+1]
	for n := 1; lo < hi; n++ {
		if len(p.texts[lo]) == n {
			visit(lo, n)
			lo++
		}
		if n == len(text) {
			break
		}
		lo, hi = p.narrow(lo, hi, n, text[n])
	}
}

// narrow returns the range of the entries lo to hi, which agree in n bytes and are longer, whose next byte is
// c.
func (p *prefixes) narrow(lo, hi, n int, c byte) (int, int) {
	texts := p.texts[lo:hi]
	from := sort.Search(len(texts), func(i int) bool { return texts[i][n] >= c })
	to := from + sort.Search(len(texts)-from, func(i int) bool { return texts[from+i][n] > c })
	return lo + from, lo + to
}
