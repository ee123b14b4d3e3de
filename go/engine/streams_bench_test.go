package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/sample"
)

// BenchmarkStreams measures what a token of a stream takes among so many streams of a tiny model: of the likeliest tokens, of
// those that are sampled with the default parameters, and of those that a grammar allows besides. With -cpuprofile, what is not
// in kernel.run is what a stream takes beside the pass, which should not grow with their number.
func BenchmarkStreams(b *testing.B) {
	const tokens = 60
	for _, how := range []string{"greedy", "sampled", "grammar"} {
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", how, n), func(b *testing.B) {
				l := openLoop(b, tiny, Config{Sequences: n, Batch: max(n, 32), Ctx: 96}, LoopConfig{Queue: n, TargetITL: time.Minute})
				var allowed *constrain.Automaton
				if how == "grammar" {
					allowed = records(b, l.e)
				}
				for b.Loop() {
					var all []*catcher
					for i := range n {
						r := greedyRequest([]int32{int32(i%200 + 1), int32(i/200 + 1)}, tokens)
						if how != "greedy" {
							r.Sampling = sample.Defaults()
							r.Sampling.Seed = uint64(i)
						}
						if allowed != nil {
							r.Constraint = allowed.New(false)
						}
						if _, err := l.Submit(r); err != nil {
							b.Fatal(err)
						}
						all = append(all, r.Sink.(*catcher))
					}
					for _, c := range all {
						if r := <-c.done; r.Err != nil {
							b.Fatal(r.Err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*tokens), "ns/token")
			})
		}
	}
}
