package tokenizer

import "strings"

// symbols numbers texts: vocabulary entries by their ids; other texts that are inputs or results of merges,
// from the size of the vocabulary on.
type symbols struct {
	index  map[string]int32
	extra  map[string]int32
	nVocab int32
}

func newSymbols(t *Tokenizer, index map[string]int32) *symbols {
	return &symbols{index: index, extra: map[string]int32{}, nVocab: int32(len(t.tokens))}
}

func (s *symbols) of(text []byte) int32 {
	if id, ok := s.index[string(text)]; ok {
		return id
	}
	id, ok := s.extra[string(text)]
	if !ok {
		id = s.nVocab + int32(len(s.extra))
		s.extra[string(text)] = id
	}
	return id
}

// merges maps pairs of symbols to their merges.
type merges map[uint64]merge

// merge is the result of merging a pair, and its rank.
type merge struct {
	rank uint32
	id   int32
}

// readMerges reads the merge list, highest priority first.
func readMerges(r *reader, s *symbols) merges {
	list := r.strs("merges")
	m := make(merges, len(list))
	var text []byte
	for rank, pair := range list {
		cut := strings.IndexByte(pair, ' ')
		if cut < 1 || cut == len(pair)-1 {
			r.fail("%smerges[%d] is %q, want two parts with a space between", prefix, rank, pair)
			return m
		}
		text = append(append(text[:0], pair[:cut]...), pair[cut+1:]...)
		if len(text) > maxToken {
			r.fail("%smerges[%d] makes a text of %d bytes, want at most %d", prefix, rank, len(text), maxToken)
		}
		key := pairKey(s.of(text[:cut]), s.of(text[cut:]))
		if _, again := m[key]; !again {
			m[key] = merge{uint32(rank), s.of(text)}
		}
	}
	return m
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// pair implements pairing.
func (m merges) pair(_ string, left, right int32) (uint32, int32, bool) {
	to, ok := m[pairKey(left, right)]
	return to.rank, to.id, ok
}
