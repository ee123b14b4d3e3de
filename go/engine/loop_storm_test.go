package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// checkPass says whether what is said to be in the pass is.
func checkPass(t *testing.T, l *Loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.inPass != 0 && !slices.Contains(l.batch, j) {
			t.Errorf("request %d is in no pass, and %d of its tokens are said to be", j.id, j.inPass)
		}
	}
}

// Everything at once, from many goroutines: requests come and go, and nothing is lost.
func TestLoopStorm(t *testing.T) {
	probe := open(t, tiny, Config{})
	l := openLoop(t, tiny, Config{Sequences: 5, Batch: 48, Ctx: 150, KVBytes: 9 * uint64(probe.kv.Layout()[0].Bytes)}, LoopConfig{Queue: 20})
	var wg sync.WaitGroup
	var mu sync.Mutex
	kinds := map[string]int{}
	for w := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 9))
			for range 40 {
				r := greedyRequest(randomIDs(probe, uint64(rng.IntN(6)), 1+rng.IntN(120)), rng.IntN(40))
				r.Flow, r.Priority = fmt.Sprint(w%3), rng.IntN(2)
				if rng.IntN(6) == 0 {
					r.Deadline = time.Now().Add(time.Duration(rng.IntN(30)) * time.Millisecond)
				}
				c := r.Sink.(*catcher)
				k, err := l.Submit(r)
				kind := "done"
				switch {
				case err != nil:
					kind = "refused"
					time.Sleep(time.Millisecond)
				default:
					if rng.IntN(4) == 0 {
						time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
						k.Cancel()
					}
					l.Status()
					checkPass(t, l)
					if res := c.wait(t); res.Err != nil {
						kind = "ended"
					}
				}
				mu.Lock()
				kinds[kind]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	checkBlocks(t, l)
	if kinds["done"] == 0 || kinds["ended"] == 0 {
		t.Errorf("%v: the test does not test that", kinds)
	}
	t.Log(kinds, fmt.Sprintf("%+v", l.Status().Counts))
}
