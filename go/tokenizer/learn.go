package tokenizer

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Learnt is a byte-level BPE vocabulary (Sennrich et al. 2016; of bytes: Radford et al. 2019), as files of GGUF have it.
type Learnt struct {
	Pre    string   // how texts are cut into words
	Tokens []string // control tokens, then bytes, then merges in their order
	Merges []string // two tokens and a space between them
}

// LearnBPE learns a vocabulary of `size` tokens from texts: of control tokens, of all bytes, and of the pairs of tokens that
// are most frequent within words, one after the other. Of pairs that are equally frequent the first by its bytes' letters is
// taken, so the same texts always give the same vocabulary. There are fewer tokens if there are no more pairs. pre is
// the name of how texts are cut into words, such as gpt-2.
func LearnBPE(texts iter.Seq[string], size int, pre string, control []string) (*Learnt, error) {
	i := slices.IndexFunc(preTokenizers, func(p *preTokenizer) bool { return p.name == pre })
	if i < 0 || preTokenizers[i].nfc {
		return nil, fmt.Errorf("words of %q: no way to learn tokens of them is known; gpt-2 is one", pre)
	}
	if least := len(control) + len(byteChars); size < least || size > maxLearnt {
		return nil, fmt.Errorf("a vocabulary of %d tokens, want %d to %d", size, least, maxLearnt)
	}
	l := &learner{ids: map[string]int32{}, counts: map[pair]int{}, where: map[pair]map[int32]bool{}}
	v := &Learnt{Pre: pre, Tokens: slices.Clone(control)}
	for i, char := range byteChars {
		l.spelled = append(l.spelled, string(char))
		l.ids[string(char)] = int32(i)
	}
	v.Tokens = append(v.Tokens, l.spelled...)
	l.read(texts, preTokenizers[i])
	for len(v.Tokens) < size {
		p, ok := l.best()
		if !ok {
			break
		}
		token := l.spelled[p.a] + l.spelled[p.b]
		if slices.Contains(control, token) {
			continue // text never is a control token
		}
		v.Merges = append(v.Merges, l.spelled[p.a]+" "+l.spelled[p.b])
		if _, known := l.ids[token]; !known {
			v.Tokens = append(v.Tokens, token)
		}
		l.merge(p, token)
	}
	return v, nil
}

// IsByte reports whether a vocabulary that is learnt has a token of this name for a byte: no other can have it.
func IsByte(token string) bool {
	char, size := utf8.DecodeRuneInString(token)
	return size == len(token) && slices.Contains(byteChars[:], char)
}

// maxLearnt is the most tokens of a vocabulary that is learnt.
const maxLearnt = 1 << 20

// A learner counts pairs of symbols in words, each word as often as it is there.
type learner struct {
	spelled []string // of each symbol
	ids     map[string]int32
	words   []learntWord
	counts  map[pair]int
	where   map[pair]map[int32]bool // words with the pair, and some that had it
	heap    pairHeap
}

type pair struct{ a, b int32 }

type learntWord struct {
	symbols []int32
	n       int
}

// read counts the words of texts.
func (l *learner) read(texts iter.Seq[string], pre *preTokenizer) {
	count := map[string]int{}
	for text := range texts {
		pre.split(text, func(word string) bool {
			for len(word) > maxWord { // as it is encoded
				count[strings.Clone(word[:maxWord])]++
				word = word[maxWord:]
			}
			if n, ok := count[word]; ok {
				count[word] = n + 1
			} else {
				count[strings.Clone(word)] = 1
			}
			return true
		})
	}
	for _, word := range slices.Sorted(maps.Keys(count)) {
		w := learntWord{n: count[word]}
		for _, b := range []byte(word) {
			w.symbols = append(w.symbols, int32(b))
		}
		l.words = append(l.words, w)
		l.add(int32(len(l.words)-1), 1, nil)
	}
	for p := range l.counts {
		l.heap.all = append(l.heap.all, l.counted(p))
	}
	l.heap.spelled = &l.spelled
	heap.Init(&l.heap)
}

// add counts the pairs of a word, or with sign -1 no longer does, and notes those that change.
func (l *learner) add(word int32, sign int, changed map[pair]bool) {
	w := l.words[word]
	for i := 1; i < len(w.symbols); i++ {
		p := pair{w.symbols[i-1], w.symbols[i]}
		l.counts[p] += sign * w.n
		if changed != nil {
			changed[p] = true
		}
		if sign < 0 {
			continue
		}
		if l.where[p] == nil {
			l.where[p] = map[int32]bool{}
		}
		l.where[p][word] = true
	}
}

func (l *learner) counted(p pair) countedPair { return countedPair{p, l.counts[p]} }

// best takes the most frequent pair.
func (l *learner) best() (pair, bool) {
	for l.heap.Len() > 0 {
		if c := heap.Pop(&l.heap).(countedPair); c.n > 0 && l.counts[c.pair] == c.n { // else it was counted anew
			return c.pair, true
		}
	}
	return pair{}, false
}

// merge makes a pair one symbol in all words, which may be one already that another pair has become.
func (l *learner) merge(p pair, token string) {
	id, known := l.ids[token]
	if !known {
		id = int32(len(l.spelled))
		l.spelled = append(l.spelled, token)
		l.ids[token] = id
	}
	changed := map[pair]bool{}
	for _, word := range slices.Sorted(maps.Keys(l.where[p])) {
		l.add(word, -1, changed)
		w := &l.words[word]
		to := w.symbols[:0]
		for i := 0; i < len(w.symbols); i++ {
			if i+1 < len(w.symbols) && w.symbols[i] == p.a && w.symbols[i+1] == p.b {
				to = append(to, id)
				i++
			} else {
				to = append(to, w.symbols[i])
			}
		}
		w.symbols = to
		l.add(word, 1, changed)
	}
	delete(l.where, p)
	for q := range changed {
		if l.counts[q] > 0 {
			heap.Push(&l.heap, l.counted(q))
		} else {
			delete(l.counts, q)
			delete(l.where, q)
		}
	}
}

type countedPair struct {
	pair
	n int
}

// A pairHeap has the most frequent pair on top.
type pairHeap struct {
	all     []countedPair
	spelled *[]string
}

func (h *pairHeap) Len() int { return len(h.all) }

func (h *pairHeap) Less(i, j int) bool {
	a, b, s := h.all[i], h.all[j], *h.spelled
	if a.n != b.n {
		return a.n > b.n
	}
	return cmp.Or(cmp.Compare(s[a.a], s[b.a]), cmp.Compare(s[a.b], s[b.b])) < 0
}

func (h *pairHeap) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }

func (h *pairHeap) Push(x any) { h.all = append(h.all, x.(countedPair)) }

func (h *pairHeap) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}
