package engine

import "github.com/quern-llm/quern/go/kvcache"

// A prompt is evaluated in slices, and recurrent state is known only at the end of
// one. So slices end where others are likely to go on: at the cuts.

// cut has the slices of a request's prompt end after these many tokens.
func (j *job) cut(at ...int) { j.cuts = append(j.cuts, at...) }

// slice returns how many of the next n tokens are evaluated in one pass.
func (j *job) slice(n int) int {
	for _, at := range j.cuts {
		if more := at - j.seq.Len(); more > 0 {
			n = min(n, more)
		}
	}
	return n
}

// share gives the cache what a request has evaluated of its prompt, for those who
// wait for it.
func (l *Loop) share(j *job) {
	end := j.seq.Len() >= len(j.Prompt)
	for _, at := range j.cuts {
		end = end || at == j.seq.Len()
	}
	l.tree.Keep(j.Namespace, j.seq.table, j.seq.ids, kvcache.How{Whole: true, End: end})
}
