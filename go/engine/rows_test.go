package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
)

// A witnessed is a prompt with pictures or sounds, and what another implementation says of it.
type witnessed struct {
	TextModel string `json:"text_model"`
	MMProj    string
	Media     []string
	Greedy    []int32
	Gaps      []float64
	PeerWrong any `json:"peer_wrong"`
	Chunks    []struct {
		IDs             []int32
		Media           *int
		Rows, Positions int
	}
}

func witness(t *testing.T, name string) (w witnessed, dir string) {
	t.Helper()
	dir = testdata.Path(t, "mmproj")
	data, err := os.ReadFile(filepath.Join(dir, "cases", name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &w)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w, dir
}

// engine opens the text model with the encoders.
func (w *witnessed) engine(t *testing.T, dir string, c Config) *Engine {
	t.Helper()
	f, err := model.OpenFile(filepath.Join(dir, w.MMProj))
	if err != nil {
		t.Fatal(err)
	}
	c.Media = &Media{Projector: f}
	return open(t, filepath.Join(dir, w.TextModel), c)
}

// request makes a request of the prompt. The encoders see the media for themselves.
func (w *witnessed) request(t *testing.T, e *Engine, dir string) *Request {
	t.Helper()
	inputs := map[int][]*projector.Input{}
	senses := map[int]projector.Sense{}
	for i, name := range w.Media {
		var parts []projector.Part
		if raw, err := os.ReadFile(filepath.Join(dir, "raw", filepath.Base(name)+".16k.f32")); err == nil {
			samples := make([]float32, len(raw)/4)
			for k := range samples {
				samples[k] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:]))
			}
			senses[i] = projector.Hearing
			parts = e.Projector(projector.Hearing).Hear(samples)
		} else {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			p, err := picture.Decode(context.Background(), data, picture.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			parts = e.Projector(projector.Sight).See(p)
		}
		for _, p := range parts {
			if p.Input != nil {
				inputs[i] = append(inputs[i], p.Input)
			}
		}
	}
	var prompt []int32
	var media []Medium
	for _, c := range w.Chunks {
		if c.Media == nil {
			prompt = append(prompt, c.IDs...)
			continue
		}
		i := *c.Media
		if len(inputs[i]) == 0 {
			t.Fatalf("%s has fewer parts", w.Media[i])
		}
		in, s := inputs[i][0], senses[i]
		inputs[i] = inputs[i][1:]
		media = append(media, Medium{
			At: len(prompt), Tokens: in.Rows(), Hash: sha256.Sum256(fmt.Append(nil, w.Media[i], len(inputs[i]))), Sense: s, Input: in,
			BothWays: s == projector.Sight && e.Projector(s).BothWays(),
		})
		if in.Rows() != c.Rows {
			t.Errorf("%s: %d rows, want %d", w.Media[i], in.Rows(), c.Rows)
		}
		prompt = append(prompt, slices.Repeat([]int32{-1}, in.Rows())...)
	}
	r := greedyRequest(prompt, len(w.Greedy))
	r.Media = media
	return r
}

// otherRows are kinds of encoders whose rows the other implementation has otherwise than the models' publishers: see libmtmds
// in go/model.
var otherRows = []string{"internvl", "llava", "llama4", "kimivl"}

// What models say of pictures and sounds is what another implementation says, up to where it finds two tokens about as likely.
func TestSeesAsOthers(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(testdata.Path(t, "mmproj"), "cases", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatal(len(paths), err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		w, dir := witness(t, name)
		kind, which, _ := strings.Cut(name, ".")
		if len(w.Greedy) == 0 || w.PeerWrong != nil || slices.Contains(otherRows, kind) || !slices.Contains([]string{"start", "two", "speech", "image-audio"}, which) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := model.OpenFile(filepath.Join(dir, w.MMProj))
			if err != nil {
				t.Fatal(err)
			}
			var s encoders
			err = s.open(&Config{Media: &Media{Projector: f}})
			f.Close()
			if err != nil {
				if strings.Contains(err.Error(), "not supported") {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			e := w.engine(t, dir, Config{Shared: true, Sequences: 2})
			l, err := NewLoop(e, LoopConfig{Queue: 10})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			r := w.request(t, e, dir)
			if t.Failed() {
				return
			}
			_, got := ask(t, l, r)
			for i, id := range got {
				if w.Gaps[i] < 0.05 {
					break
				}
				if id != w.Greedy[i] {
					t.Fatalf("%v, want %v, apart by %v", got, w.Greedy, w.Gaps)
				}
			}
		})
		seen[kind] = true
	}
	if len(seen) < 15 {
		t.Errorf("%d kinds of encoders were tried", len(seen))
	}
}

// An encoding is for all that wait for it, and for those that come later; what has been evaluated needs none.
func TestOneEncodingServesAll(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gemma3.two", "qwen3vl.two", "qwen35v.two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := witness(t, name)
			e := w.engine(t, dir, Config{Shared: true, Sequences: 4, Ctx: 256})
			l, err := NewLoop(e, LoopConfig{Queue: 10})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var asked []*Request
			for i := range 3 { // none is a leader: their beginnings are different
				r := w.request(t, e, dir)
				r.Prompt = slices.Clone(r.Prompt)
				r.Prompt[0] = int32(20 + i)
				submit(t, l, r)
				asked = append(asked, r)
			}
			stream := greedyRequest(randomIDs(e, 8, 30), 60)
			_, c := submit(t, l, stream)
			for _, r := range asked {
				if res := r.Sink.(*catcher).wait(t); res.Err != nil || res.Generated != len(w.Greedy) {
					t.Errorf("%+v", res)
				}
			}
			if res := c.wait(t); res.Err != nil || res.Generated != 60 {
				t.Errorf("a stream beside: %+v", res)
			}
			if n := l.Status().Counts.Encodings; n != 2 {
				t.Errorf("%d encodings of two pictures", n)
			}
			l.mu.Lock()
			e.mediaRows.trim(0)
			if e.mediaRows.bytes != 0 || len(e.mediaRows.byHash) != 0 || len(l.works) != 0 {
				t.Errorf("%d bytes of rows are used by nobody", e.mediaRows.bytes)
			}
			l.mu.Unlock()
			again := w.request(t, e, dir)
			again.Prompt = slices.Clone(again.Prompt)
			again.Prompt[0] = 20
			u, got := ask(t, l, again)
			if n := l.Status().Counts.Encodings; !e.Recurrent() && (n != 2 || u.CachedTokens != len(again.Prompt)-1) {
				t.Errorf("%d encodings and %d tokens in the cache, of a prompt that was there", n, u.CachedTokens)
			}
			if want := asked[0].Sink.(*catcher).ids; !slices.Equal(got, want) {
				t.Errorf("%v from the cache, %v before", got, want)
			}
		})
	}
}

// Rows are on disk: after a restart, what a picture is behind another beginning takes no encoding, and says the same. Where the
// disk has lost them, they are made again.
func TestRowsOnDisk(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gemma3.two", "qwen3vl.two", "qwen35v.two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := witness(t, name)
			folder := t.TempDir()
			store, err := diskcache.Open(diskcache.Config{Dir: folder, Limit: 1 << 30, Log: func(line string) { t.Log(line) }})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var want []int32
			for run, c := range []struct{ encodings, restores uint64 }{{2, 0}, {0, 2}, {2, 0}} {
				e := w.engine(t, dir, Config{Shared: true, Sequences: 4, Ctx: 256})
				l, err := NewLoop(e, LoopConfig{Queue: 10, Disk: store, Profile: "a test"})
				if err != nil {
					t.Fatal(err)
				}
				l.mu.Lock()
				l.spill.worth = func(int, uint64, time.Duration) bool { return false } // of texts
				l.mu.Unlock()
				var got []int32
				for first := range int32(2) {
					r := w.request(t, e, dir)
					r.Prompt = slices.Clone(r.Prompt)
					r.Prompt[0] = 20 + first
					_, ids := ask(t, l, r)
					got = append(got, ids...)
				}
				if want == nil {
					want = got
				}
				if n := l.Status().Counts; n.Encodings != c.encodings || n.RowRestores != c.restores {
					t.Errorf("run %d: %d encodings, and %d from disk, want %+v", run, n.Encodings, n.RowRestores, c)
				}
				if !slices.Equal(got, want) {
					t.Errorf("run %d: %v, want %v", run, got, want)
				}
				l.Close()
				if run == 1 { // what is there is another's
					pages, err := filepath.Glob(filepath.Join(folder, "*", "*.page"))
					if err != nil || len(pages) == 0 {
						t.Fatal(len(pages), err)
					}
					for _, page := range pages {
						if err := os.Truncate(page, 100); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		})
	}
}

// A request that is cancelled, or for which there is no memory, leaves nothing of an encoding.
func TestEncodingEnds(t *testing.T) {
	t.Parallel()
	w, dir := witness(t, "qwen3vl.start")
	e := w.engine(t, dir, Config{Shared: true, Sequences: 2, Ctx: 512})
	l, err := NewLoop(e, LoopConfig{Queue: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	used := e.device.budget.Used()
	r := w.request(t, e, dir)
	if err := l.Between(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	k, c := submit(t, l, r)
	k.Cancel()
	if res := c.wait(t); !errors.Is(res.Err, context.Canceled) {
		t.Errorf("%+v", res)
	}
	limit, _ := e.device.budget.Limit()
	rest, err := e.device.budget.Reserve("a test", limit-e.device.budget.Used()-100<<10)
	if err != nil {
		t.Fatal(err)
	}
	_, c = submit(t, l, w.request(t, e, dir))
	var short *MemoryError
	if res := c.wait(t); !errors.As(res.Err, &short) || !strings.Contains(short.Error(), "for a picture or a sound") {
		t.Errorf("without memory: %+v", res)
	}
	rest.Release()
	l.mu.Lock()
	e.mediaRows.trim(0)
	if n := e.device.budget.Used(); n > used || len(l.works) > 0 || holders(e) > 0 {
		t.Errorf("%d bytes were used, now %d, for %d encodings", used, n, len(l.works))
	}
	l.mu.Unlock()
	_, c = submit(t, l, w.request(t, e, dir))
	if res := c.wait(t); res.Err != nil || !slices.Equal(c.ids[:2], w.Greedy[:2]) {
		t.Errorf("with memory: %+v, %v", res, c.ids)
	}
}

// A program's own sequence goes on from pictures that it has seen.
func TestGenerateSees(t *testing.T) {
	t.Parallel()
	w, dir := witness(t, "gemma3.two")
	e := w.engine(t, dir, Config{Ctx: 256})
	r := w.request(t, e, dir)
	s := e.NewSequence()
	defer s.Close()
	say := func(p generate.Params) (ids []int32, st Stats) {
		t.Helper()
		st, err := e.Generate(t.Context(), s, p, func(id int32) error { ids = append(ids, id); return nil }, r.Media...)
		if err != nil {
			t.Fatal(err)
		}
		return ids, st
	}
	first, _ := say(r.Params)
	if !slices.Equal(first[:8], w.Greedy[:8]) {
		t.Errorf("%v, want %v", first, w.Greedy)
	}
	p := r.Params
	p.Prompt = append(slices.Clone(r.Prompt), first[:3]...)
	next, st := say(p)
	if !slices.Equal(next[:5], first[3:8]) || st.CachedTokens != len(p.Prompt)-1 {
		t.Errorf("%v after %v, with %d of %d tokens evaluated before", next, first, st.CachedTokens, len(p.Prompt))
	}
	if _, err := e.Generate(t.Context(), s, r.Params, nil); err == nil {
		t.Error("a prompt with ids of media, and without media")
	}
}
