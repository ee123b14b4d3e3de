package tokenizer

import "strings"

// Most words of a text are repetitions, so each scratch caches the ids of short
// words. Long words are rare and would evict the others.
const (
	maxCached     = 8192 // words
	maxCachedWord = 48   // bytes
)

// maxKept limits the capacity for symbols that a scratch keeps between texts. A huge text of one word would
// otherwise hold 24 bytes for each of its own.
const maxKept = 1 << 14

// scratch is the working memory of encoding, and where it ends. One goroutine uses it at a time; a Tokenizer keeps
// some of them.
type scratch struct {
	most    int // end the encoding once the text is known to have more ids; 0: never
	longest int // bytes of text that an id stands for at most; 0: no bound
	least   int // when it was ended: how many ids the text has at least

	merger merger
	steps  []step // of a unigram's word
	text   []byte // a word in the spelling of the vocabulary
	words  map[string]span
	ids    []int32 // of all remembered words
}

// span is a range of scratch.ids.
type span struct{ start, end int32 }

// over reports whether the ids of a text are more than wanted, given those before a word of it.
func (s *scratch) over(ids []int32, word string) bool {
	if s.most == 0 || len(ids)+len(word) <= s.most {
		return false
	}
	if n := len(ids) + atLeast(word, s.longest); n > s.most {
		s.least = n
	}
	return s.least > 0
}

// atLeast returns how many ids text has at least if none stands for more than `longest` bytes; 0 is no bound.
func atLeast(text string, longest int) int {
	if longest == 0 {
		return 0
	}
	return (len(text) + longest - 1) / longest
}

// trim frees buffers that have grown beyond maxKept.
func (s *scratch) trim() {
	if cap(s.merger.symbols) > maxKept || cap(s.merger.heap) > 2*maxKept {
		s.merger = merger{}
	}
	if cap(s.text) > maxKept {
		s.text = nil
	}
	if cap(s.steps) > maxKept {
		s.steps = nil
	}
}

// recall appends the ids of word to dst, if they are cached.
func (s *scratch) recall(dst []int32, word string) ([]int32, bool) {
	at, ok := s.words[word]
	if !ok {
		return dst, false
	}
	return append(dst, s.ids[at.start:at.end]...), true
}

// remember caches the ids of word. It copies word, which would otherwise keep the
// whole text reachable.
func (s *scratch) remember(word string, ids []int32) {
	if len(word) > maxCachedWord {
		return
	}
	if len(s.words) >= maxCached {
		clear(s.words)
		s.ids = s.ids[:0]
	}
	if s.words == nil {
		s.words = make(map[string]span)
	}
	start := int32(len(s.ids))
	s.ids = append(s.ids, ids...)
	s.words[strings.Clone(word)] = span{start, int32(len(s.ids))}
}
