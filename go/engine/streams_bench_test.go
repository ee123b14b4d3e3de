package engine

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkStreams measures what a token of a stream takes among so many streams of a tiny model. With -cpuprofile, what
// is not in runtime.cgocall is Go's part, which should not grow with their number.
func BenchmarkStreams(b *testing.B) {
	const tokens = 60
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := openLoop(b, tiny, Config{Sequences: n, Batch: max(n, 32), Ctx: 96}, LoopConfig{Queue: n, TargetITL: time.Minute})
			for b.Loop() {
				var all []*catcher
				for i := range n {
					r := greedyRequest([]int32{int32(i%200 + 1), int32(i/200 + 1)}, tokens)
					if _, err := l.Submit(r); err != nil {
						b.Fatal(err)
					}
					all = append(all, r.Sink.(*catcher))
				}
				for _, c := range all {
					<-c.done
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*tokens), "ns/token")
		})
	}
}
