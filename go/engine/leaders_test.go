package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
)

// The request that is found is the one that comparing with each finds.
func TestLeadersEqualRule(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	rule := func(jobs []*job, r *job, ids []int32, least int) (id uint64, shared int) {
		for _, j := range jobs {
			if j.NoCache || j.Priority < r.Priority || j.namespace != r.namespace {
				continue
			}
			n := kvcache.Common(j.Prompt, ids)
			n -= n % kvcache.BlockTokens
			if n > 0 && n >= least && n > shared {
				id, shared = j.id, n
			}
		}
		return id, shared
	}
	l := newLeaders()
	var jobs []*job
	for i := range 3000 {
		prompt := make([]int32, rng.IntN(5*kvcache.BlockTokens))
		for at := range prompt {
			prompt[at] = 7
		}
		for range rng.IntN(3) { // texts part at few places, in few ways
			if n := kvcache.BlockTokens/2 + kvcache.BlockTokens*rng.IntN(5); n < len(prompt) {
				prompt[n] = int32(rng.IntN(3))
			}
		}
		j := &job{
			Request: &Request{Params: generate.Params{Prompt: prompt}, Priority: rng.IntN(2), NoCache: rng.IntN(9) == 0},
			id:      uint64(i + 1), namespace: []string{"", "a"}[rng.IntN(2)],
		}
		if !j.NoCache {
			j.marks = l.marks(j.namespace, prompt)
			ids, least := prompt[:max(len(prompt)-1, 0)], rng.IntN(2*kvcache.BlockTokens)
			id, shared := l.find(j, ids, least)
			if want, most := rule(jobs, j, ids, least); id != want || shared != most {
				t.Fatalf("request %d: got %d, %d tokens, want %d, %d", j.id, id, shared, want, most)
			}
		}
		l.add(j)
		jobs = append(jobs, j)
		for rng.IntN(40) < len(jobs) {
			at := rng.IntN(len(jobs))
			l.remove(jobs[at])
			jobs = slices.Delete(jobs, at, at+1)
		}
	}
	for _, j := range jobs {
		l.remove(j)
	}
	if len(l.having) > 0 {
		t.Errorf("%d prefixes are kept of requests that have left", len(l.having))
	}
}

// A request is held against others by hashes: the tokens that are looked at for it are those of its own prompt, however many
// share its beginning.
func TestLeadersLookOnce(t *testing.T) {
	const requests, tokens = 60, 700
	l := openLoop(t, tiny, Config{Sequences: 2, Ctx: 1024}, LoopConfig{Queue: requests})
	rng := rand.New(rand.NewPCG(8, 9))
	begin := make([]int32, tokens)
	for i := range begin {
		begin[i] = int32(3 + rng.IntN(100))
	}
	var all []*catcher
	for i := range requests {
		_, c := submit(t, l, greedyRequest(append(slices.Clone(begin), int32(3+i)), 1))
		all = append(all, c)
	}
	for i, c := range all {
		if r := c.wait(t); r.Err != nil {
			t.Fatal(r.Err)
		} else if i > 0 && r.CachedTokens < tokens-tokens%kvcache.BlockTokens {
			t.Errorf("request %d: %d tokens were cached", i, r.CachedTokens)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaders.looks == 0 || l.leaders.looks > 2*requests*(tokens+1) {
		t.Errorf("%d tokens were looked at, of %d", l.leaders.looks, requests*(tokens+1))
	}
	if len(l.leaders.having) > 0 {
		t.Errorf("%d prefixes are kept", len(l.leaders.having))
	}
}

// BenchmarkSubmit measures how long a request of 32,000 tokens takes to submit beside others that share them.
func BenchmarkSubmit(b *testing.B) {
	l := newLeaders()
	prompt := make([]int32, 32_000)
	for i := range 1000 {
		j := &job{Request: &Request{Params: generate.Params{Prompt: prompt}}, id: uint64(i + 1)}
		j.marks = l.marks("", prompt)
		l.add(j)
	}
	id := uint64(1001)
	for b.Loop() {
		j := &job{Request: &Request{Params: generate.Params{Prompt: prompt}}, id: id}
		j.marks = l.marks("", prompt)
		l.find(j, prompt[:len(prompt)-1], kvcache.BlockTokens)
		l.add(j)
		l.remove(j)
		id++
	}
}
