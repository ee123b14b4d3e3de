package engine

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sort"

	"github.com/quern-llm/quern/go/kvcache"
)

// leaders finds requests by what their prompts begin with, in whole blocks, with few looks at their tokens: it has the
// requests by the hashes of all their prefixes.
type leaders struct {
	seed   maphash.Seed
	having map[mark]*having
	looks  int // at tokens, to hash or to compare them
}

// A mark is the hash of a namespace and a number of blocks.
type mark uint64

// having is the requests that have a prefix in common, in the order of their ids.
type having struct {
	jobs []*job // some of which have left
	n    int    // that have not
}

func newLeaders() leaders {
	return leaders{seed: maphash.MakeSeed(), having: map[mark]*having{}}
}

// marks returns those of all prefixes of ids in whole blocks, the shortest first.
func (l *leaders) marks(namespace string, ids []int32) []mark {
	all := make([]mark, 0, len(ids)/kvcache.BlockTokens)
	last := mark(maphash.String(l.seed, namespace))
	for len(ids) >= kvcache.BlockTokens {
		var b [8 + 4*kvcache.BlockTokens]byte
		to := binary.LittleEndian.AppendUint64(b[:0], uint64(last))
		for _, id := range ids[:kvcache.BlockTokens] {
			to = binary.LittleEndian.AppendUint32(to, uint32(id))
		}
		last = mark(maphash.Bytes(l.seed, to))
		all = append(all, last)
		ids = ids[kvcache.BlockTokens:]
	}
	return all
}

// add adds a request. Ids ascend.
func (l *leaders) add(j *job) {
	l.looks += len(j.marks) * kvcache.BlockTokens
	for _, m := range j.marks {
		h := l.having[m]
		if h == nil {
			h = &having{}
			l.having[m] = h
		}
		h.jobs = append(h.jobs, j)
		h.n++
	}
}

// remove removes a request that was added.
func (l *leaders) remove(j *job) {
	j.left = true
	for _, m := range j.marks {
		h := l.having[m]
		if h.n--; h.n == 0 {
			delete(l.having, m)
		} else if len(h.jobs) > 2*h.n+8 {
			h.jobs = slices.DeleteFunc(h.jobs, func(j *job) bool { return j.left })
		}
	}
}

// find returns the request that has the longest prefix of ids, of at least so many tokens, among those of j's priority
// and above, the first of them; and the length of that prefix. ids are tokens that j's prompt begins with.
func (l *leaders) find(j *job, ids []int32, least int) (id uint64, shared int) {
	marks := j.marks[:min(len(j.marks), len(ids)/kvcache.BlockTokens)]
	blocks := sort.Search(len(marks), func(i int) bool { return l.having[marks[i]] == nil })
	for ; blocks*kvcache.BlockTokens >= max(least, 1); blocks-- {
		n := blocks * kvcache.BlockTokens
		for _, other := range l.having[marks[blocks-1]].jobs {
			if other.left || other.Priority < j.Priority || other.namespace != j.namespace {
				continue
			}
			if l.looks += n; slices.Equal(other.Prompt[:n], ids[:n]) { // as a rule: hashes may be equal by chance
				return other.id, n
			}
		}
	}
	return 0, 0
}
