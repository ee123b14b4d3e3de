package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/synth"
)

// BenchmarkPartsOfLayers measures passes of texts that are generated, on two ranks of one thread that have layers each, as a
// whole and in parts: the fastest of a run, in ms. Ranks need a CPU each.
func BenchmarkPartsOfLayers(b *testing.B) {
	const ranks = 2
	m, err := synth.ParseShape("llama-3.2-1b/8:Q4_K_M")
	if err != nil {
		b.Fatal(err)
	}
	shape := *m.Shape
	shape.NVocab, m.Shape = 2048, &shape
	path := filepath.Join(b.TempDir(), "m.gguf")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := m.Write(b.Context(), f); err != nil {
		b.Fatal(err)
	}
	f.Close()
	for _, n := range []int{1, 4, 16, 32, 64} {
		for _, whole := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d texts, whole %v", n, whole), func(b *testing.B) {
				r := divided(b, path, ranks)
				r.Layers = true
				least, parts := time.Hour, int64(0)
				var l *Loop
				c := LoopConfig{Queue: n, TargetITL: time.Minute, OnPass: func(p PassInfo) {
					// Now and then a pass is a whole one, to compare: it is not what is measured here.
					if p.DecodeTokens == n && p.PromptTokens == 0 && (whole || l.e.stages.divided) {
						least = min(least, p.Took)
					}
				}}
				l = openLoop(b, path, Config{Sequences: n, Batch: 512, Ctx: 128, Ranks: r}, c)
				if whole {
					_ = l.e.device.inTurn(func() error { l.e.stages = nil; return nil })
				}
				for b.Loop() {
					var all []*catcher
					before := l.Status()
					for i := range n {
						req := greedyRequest([]int32{int32(i + 1)}, 12)
						if _, err := l.Submit(req); err != nil {
							b.Fatal(err)
						}
						all = append(all, req.Sink.(*catcher))
					}
					for _, c := range all {
						if r := <-c.done; r.Err != nil {
							b.Fatal(r.Err)
						}
					}
					after := l.Status()
					parts = (after.Ranks.Exchanges - before.Ranks.Exchanges) / int64(after.Counts.Passes-before.Counts.Passes)
				}
				if least == time.Hour {
					b.Skip("no pass of all texts was in parts: a whole one is predicted to be as fast")
				}
				b.ReportMetric(float64(least.Microseconds())/1e3, "ms/pass")
				b.ReportMetric(float64(parts-1), "parts")
			})
		}
	}
}
