package engine

import (
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/quern-llm/quern/go/draft"
)

// remembered returns a request, and whether something still refers to what only the request has.
func remembered(r *Request) (*Request, func() bool) {
	own := new([1 << 10]byte)
	r.Stop = func(int32) bool { return own[0] > 0 }
	r.Draft = draft.Options{Sources: draft.All | 1<<draft.Model, Max: 4}
	w := weak.Make(own)
	return r, func() bool { runtime.GC(); return w.Value() != nil }
}

// A request that has ended is not held by what passes use again: neither by Generate, whose prompt and constraint may be
// large, nor by a loop that has nothing to do.
func TestEndedRequestsAreReleased(t *testing.T) {
	d := device(t, 1)
	for name, path := range map[string]string{"a draft model": tiny, "a layer that drafts": nextOf(t, "glm4moe", 2)} {
		t.Run(name, func(t *testing.T) {
			c := Config{Ctx: 128, Sequences: 2, Device: d, MTP: path != tiny}
			e, l := open(t, path, c), openLoop(t, path, c, LoopConfig{})
			prompt := randomIDs(e, 1, 9)
			prompt = slices.Concat(prompt, prompt, prompt)
			for _, of := range []*Engine{e, l.e} {
				of.timeless = true
				if path == tiny {
					if err := of.DraftWith(open(t, tiny, Config{Ctx: 128, Device: d, Sequences: 2}), func(err error) { t.Error(err) }); err != nil {
						t.Fatal(err)
					}
				} else if err := of.MTP(); err != nil {
					t.Fatal(err)
				}
			}
			s := e.NewSequence()
			defer s.Close()
			r, held := remembered(greedyRequest(prompt, 12))
			st, err := e.Generate(t.Context(), s, r.Params, func(int32) error { return nil })
			if n, _ := st.Drafted.Total(); err != nil || n == 0 {
				t.Fatalf("%v, %d drafts", err, n)
			}
			r = nil
			if held() {
				t.Error("the engine holds a request of Generate that has ended")
			}
			r, held = remembered(greedyRequest(prompt, 12))
			_, c2 := submit(t, l, r)
			c2.wait(t)
			r, c2 = nil, nil
			for end := time.Now().Add(time.Minute); held(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("an idle loop holds a request that has ended")
				}
			}
			runtime.KeepAlive(e)
			runtime.KeepAlive(l)
		})
	}
}
