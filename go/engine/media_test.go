package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/projector"
)

// rowsOf returns rows with these numbers, outside of Go's heap.
func rowsOf(t *testing.T, e *Engine, numbers []float32, columns int) (rows [][]float32) {
	t.Helper()
	region, err := e.device.budget.Alloc("rows", uint64(4*len(numbers)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { region.Close() })
	all := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(region.Bytes()))), len(numbers))
	copy(all, numbers)
	for row := range slices.Chunk(all, columns) {
		rows = append(rows, row)
	}
	return rows
}

// randomPicture returns a medium of so many tokens, two of them a row, with random rows.
func randomPicture(t *testing.T, e *Engine, at, tokens int, seed uint64) Medium {
	r := rand.New(rand.NewPCG(seed, 7))
	columns := e.Model().Config.MediaColumns()
	numbers := make([]float32, tokens*columns)
	for i := range numbers {
		numbers[i] = float32(r.NormFloat64())
	}
	return Medium{
		At: at, Tokens: tokens, Hash: sha256.Sum256(fmt.Append(nil, seed)), Advance: (tokens + 1) / 2, BothWays: true,
		Place: func(i int) [kernel.Axes]int32 { return [kernel.Axes]int32{0, int32(i / 2), int32(i % 2), 0} },
		Rows:  rowsOf(t, e, numbers, columns),
	}
}

// With places of their own, tokens of a picture are one after another, in their column, their row and their picture, and those
// before and behind its rows are as text.
func TestOwnPlaces(t *testing.T) {
	t.Parallel()
	in := &projector.Input{Made: 8}
	in.Grid.Columns, in.Grid.Rows = 3, 2
	p := placed{Medium: Medium{At: 30, Tokens: 8, Place: ownPlaces(in, 40, 2)}, from: 40}
	for i, want := range [][kernel.Axes]int32{
		{40, 40, 40, 40}, {41, 0, 0, 2}, {42, 1, 0, 2}, {43, 2, 0, 2}, {44, 0, 1, 2}, {45, 1, 1, 2}, {46, 2, 1, 2}, {47, 47, 47, 47},
		{48, 48, 48, 48},
	} {
		if got := p.place(30+i, true); got != want {
			t.Errorf("token %d: %v, want %v", i, got, want)
		}
	}
	if ownPlaces(&projector.Input{Made: 8}, 40, 0) != nil {
		t.Error("a sound has places of its own")
	}
}

// The rows of a picture at one place are there, the first before them and the last behind, and a text goes on after three places.
func TestOnePlace(t *testing.T) {
	t.Parallel()
	in := &projector.Input{Order: make([]int32, 7), OnePlace: true}
	place, advance := placesOf(in)
	for i, want := range []int32{0, 1, 1, 1, 1, 1, 2} {
		if got := place(i); got != [kernel.Axes]int32{want, want, want, want} {
			t.Errorf("row %d: %v, want %d", i, got, want)
		}
	}
	if advance != 3 {
		t.Errorf("a text goes on after %d places, want 3", advance)
	}
}

// Steps of a film begin at one row and one column, each at its time, and what follows is behind them all.
func TestPlacesOfFilms(t *testing.T) {
	t.Parallel()
	at, from := 10, int32(7)
	for _, c := range []struct {
		projector.Step
		want [6][kernel.Axes]int32
	}{
		{projector.Step{Before: 0, Time: 0, After: 1}, [6][kernel.Axes]int32{{7, 7, 7, 7}, {7, 7, 8, 7}, {7, 8, 7, 7}, {7, 8, 8, 7}, {7, 9, 7, 7}, {7, 9, 8, 7}}},
		{projector.Step{Before: 1, Time: 2, After: 2}, [6][kernel.Axes]int32{{9, 7, 7, 8}, {9, 7, 8, 8}, {9, 8, 7, 8}, {9, 8, 8, 8}, {9, 9, 7, 8}, {9, 9, 8, 8}}},
		{projector.Step{Before: 2, Time: 4, After: 5}, [6][kernel.Axes]int32{{11, 7, 7, 9}, {11, 7, 8, 9}, {11, 8, 7, 9}, {11, 8, 8, 9}, {11, 9, 7, 9}, {11, 9, 8, 9}}},
	} {
		in := &projector.Input{Made: 6, Step: c.Step}
		in.Grid.Columns, in.Grid.Rows = 2, 3
		p := placed{Medium: Medium{At: at, Tokens: 6}, from: from}
		p.Place, p.Advance = placesOf(in)
		for i, want := range c.want {
			if got := p.place(at+i, false); got != want {
				t.Errorf("%+v: token %d is at %v, want %v", c.Step, i, got, want)
			}
		}
		at, from = at+6, p.after()+int32(at+6)
	}
	if from != 12 {
		t.Errorf("what follows is at %d", from)
	}
}

// mediaKinds are models that are different in what media are to them.
var mediaKinds = []string{
	"mmproj/text/qwen3vl-4k.gguf",         // places in turns, rows for several layers
	"mmproj/text/qwen2vl-4k.gguf",         // places one after the other
	"archs/qwen35.gguf",                   // places, recurrent state
	"archs/gemma3.gguf",                   // both ways, windows
	"archs/gemma4.gguf",                   // both ways, windows, embeddings per layer
	"archs/granite.gguf",                  // rows are scaled
	"../model/testdata/archs/cogvlm.gguf", // experts of what is seen
	"archs/llama.gguf",                    // none of these
}

// mediaKind returns the file of one of mediaKinds, or of another model: of this repository's, or of the data's.
func mediaKind(t *testing.T, path string) string {
	t.Helper()
	if filepath.IsAbs(path) || strings.HasPrefix(path, "..") {
		return path
	}
	return testdata.Path(t, path)
}

// seeingConfig opens models for the pictures of these tests.
func seeingConfig() Config {
	return Config{Sequences: 4, Ctx: 320, Batch: 64, Shared: true, Media: &Media{Span: 70}}
}

// A seen is a prompt with two pictures.
type seen struct {
	engine *Engine
	loop   *Loop
	ids    []int32
	media  []Medium
}

func see(t *testing.T, path string, c Config) *seen {
	t.Helper()
	s := &seen{engine: open(t, mediaKind(t, path), c)}
	var err error
	if s.loop, err = NewLoop(s.engine, LoopConfig{Queue: 100}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.loop.Close)
	freely(s.loop)
	s.show(t, randomPicture(t, s.engine, 20, 70, 1), randomPicture(t, s.engine, 130, 33, 2))
	return s
}

// show makes a prompt of 180 tokens with these media.
func (s *seen) show(t *testing.T, media ...Medium) {
	s.ids, s.media = randomIDs(s.engine, 3, 180), media
	for _, m := range media {
		for i := range m.Tokens {
			s.ids[m.At+i] = -1
		}
	}
}

// request asks for an answer with all of its logits, as logprobs, and with the cache or without.
func (s *seen) request(alone bool) *Request {
	r := greedyRequest(s.ids, kindAnswer)
	r.Media, r.NoCache, r.TopLogprobs = s.media, alone, s.engine.Model().Config.NVocab
	return r
}

func (s *seen) ask(t *testing.T, r *Request) (Usage, []generate.Token) {
	t.Helper()
	u, _ := ask(t, s.loop, r)
	return u, r.Sink.(*catcher).logs
}

// The answer to a prompt with pictures has the same bits in slices, among others, from the cache, from a slot's file, and
// after another request took its memory.
func TestMediaAnswers(t *testing.T) {
	t.Parallel()
	for _, path := range mediaKinds {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c := seeingConfig()
			c.Batch = 256
			_, want := func() (Usage, []generate.Token) { w := see(t, path, c); return w.ask(t, w.request(true)) }()

			s := see(t, path, seeingConfig())
			_, got := s.ask(t, s.request(true))
			sameTokens(t, "in slices", got, want)

			var asked []*Request
			for i := range 3 {
				r := s.request(true)
				r.Draft = draft.Options{Max: 3, Record: &draft.Recording{Text: append(slices.Clone(s.ids), tokenIDs(want)...), Right: 0.5 * float64(i)}, Sources: draft.All}
				submit(t, s.loop, r)
				asked = append(asked, r)
			}
			for _, r := range asked {
				if res := r.Sink.(*catcher).wait(t); res.Err != nil {
					t.Fatal(res.Err)
				}
				sameTokens(t, "in company", r.Sink.(*catcher).logs, want)
			}

			r := s.request(false)
			r.Slot = 2
			s.ask(t, r)
			u, got := s.ask(t, s.request(false))
			sameTokens(t, "from the cache", got, want)
			if u.CachedTokens < 128 {
				t.Errorf("%d tokens of %d were in the cache", u.CachedTokens, len(s.ids))
			}

			var file strings.Builder
			if _, err := s.loop.SaveSlot(2, "", &file); err != nil {
				t.Fatal(err)
			}
			other := see(t, path, seeingConfig())
			other.show(t, randomPicture(t, other.engine, 7, 5, 9)) // another picture has the number
			other.ask(t, other.request(false))
			if _, err := other.loop.RestoreSlot(0, "", strings.NewReader(file.String())); err != nil {
				t.Fatal(err)
			}
			other.ids, other.media = append(slices.Clone(s.ids), tokenIDs(want)...), s.media
			_, want = other.ask(t, other.request(true))
			u, got = other.ask(t, other.request(false))
			sameTokens(t, "from a slot's file", got, want)
			if u.CachedTokens != len(other.ids)-1 {
				t.Errorf("%d tokens of %d were in the slot's file", u.CachedTokens, len(other.ids))
			}
			checkBlocks(t, s.loop)
		})
	}
}

// What is behind another picture is another text, up to it it is the same.
func TestOtherMediaShareNothing(t *testing.T) {
	t.Parallel()
	for _, path := range mediaKinds {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s := see(t, path, seeingConfig())
			_, first := s.ask(t, s.request(false))
			for i, at := range []int{20, 130} {
				media := s.media
				s.media = slices.Clone(media)
				s.media[i] = randomPicture(t, s.engine, at, media[i].Tokens, 77)
				u, got := s.ask(t, s.request(false))
				if u.CachedTokens > at {
					t.Errorf("%d tokens were in the cache, another picture is at %d", u.CachedTokens, at)
				}
				_, want := s.ask(t, s.request(true))
				sameTokens(t, "with another picture", got, want)
				if slices.EqualFunc(got, first, func(a, b generate.Token) bool { return a.Logprob == b.Logprob }) {
					t.Error("another picture changes nothing")
				}
				s.media = media
			}
		})
	}
}

// A model that could see says of text what it says without, with the same bits.
func TestTextBesideMedia(t *testing.T) {
	t.Parallel()
	for _, path := range mediaKinds {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c := seeingConfig()
			seeing := open(t, mediaKind(t, path), c)
			c.Media = nil
			blind := open(t, mediaKind(t, path), c)
			ids := randomIDs(blind, 4, 100)
			mustEqual(t, "with media", logits(t, seeing, ids, nil), logits(t, blind, ids, nil))
			// Experts of what is seen have no balanced channels, so keys and values are others.
			if same := slices.Equal(seeing.fingerprint(), blind.fingerprint()); same == seeing.Model().Config.SenseExperts {
				t.Errorf("their states are of one model: %v", same)
			}
			if _, err := blind.look([]int32{1, -1}, []Medium{{At: 1, Tokens: 1}}); !errors.Is(err, ErrBlind) {
				t.Errorf("a picture for a model that reads text: %v", err)
			}
		})
	}
}

// A request makes room for another in the midst of a prompt with pictures, and goes on.
func TestMediaMakeRoom(t *testing.T) {
	t.Parallel()
	for _, path := range mediaKinds {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c := seeingConfig()
			c.Ctx = 180 + kindAnswer + 1
			free := see(t, path, c)
			_, want := free.ask(t, free.request(true))
			c.Sequences, c.KVBytes = 1, free.engine.kv.Layout().Most(c.Ctx, 70)+free.engine.kv.Layout().Copy()
			s := see(t, path, c)
			begun, both := make(chan struct{}), make(chan struct{})
			first := s.request(false)
			first.Sink.(*catcher).on = func(n int) {
				if n == 3 {
					close(begun)
					<-both
				}
			}
			submit(t, s.loop, first)
			<-begun
			second := s.request(false)
			second.Prompt = append(s.ids[1:len(s.ids):len(s.ids)], 5)
			second.Media = slices.Clone(s.media)
			for i := range second.Media {
				second.Media[i].At--
			}
			second.Priority = 1
			submit(t, s.loop, second)
			close(both)
			if res := first.Sink.(*catcher).wait(t); res.Err != nil || res.Preempted == 0 {
				t.Errorf("%+v: it was not preempted", res)
			}
			sameTokens(t, "after it made room", first.Sink.(*catcher).logs, want)
			if res := second.Sink.(*catcher).wait(t); res.Err != nil {
				t.Error(res.Err)
			}
			checkBlocks(t, s.loop)
		})
	}
}

// Requests whose media are not where they say are refused, in one line.
func TestWrongMedia(t *testing.T) {
	t.Parallel()
	s := see(t, "archs/gemma3.gguf", seeingConfig())
	for name, change := range map[string]func(r *Request){
		"tokens 171 to 241":    func(r *Request) { r.Media[0].At = 171 },
		"want at least one":    func(r *Request) { r.Media[1].At = 80 },
		"tokens -1 to":         func(r *Request) { r.Media[0].At = -1 },
		"0 rows":               func(r *Request) { r.Media[0].Rows = nil },
		"has 3 columns":        func(r *Request) { r.Media[0].Rows[4] = make([]float32, 3) },
		"71 places":            func(r *Request) { r.Media[0].Advance = 71 },
		"want one below 0":     func(r *Request) { r.Prompt[25] = 3 },
		"token 90 is -1":       func(r *Request) { r.Prompt[90] = -1 },
		"token 179 is -7":      func(r *Request) { r.Prompt[179] = -7 },
		"its 100 tokens see":   func(r *Request) { *r = *wide(t, s, r) },
		"token 20 is -1, want": func(r *Request) { r.Media = nil },
	} {
		r := s.request(false)
		r.Prompt, r.Media = slices.Clone(r.Prompt), slices.Clone(r.Media)
		for i := range r.Media {
			r.Media[i].Rows = slices.Clone(r.Media[i].Rows)
		}
		change(r)
		_, err := s.loop.Submit(r)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := holders(s.engine); n != 0 {
		t.Errorf("%d ids of media are held by requests that were refused", n)
	}
}

// wide returns a request with a picture that does not fit in a pass.
func wide(t *testing.T, s *seen, r *Request) *Request {
	w := &seen{engine: s.engine}
	w.show(t, randomPicture(t, s.engine, 20, 100, 5))
	return w.request(false)
}

// holders returns how many hold ids of media.
func holders(e *Engine) (n int) {
	e.mediaIDs.mu.Lock()
	defer e.mediaIDs.mu.Unlock()
	for _, one := range e.mediaIDs.byID {
		n += one.holders
	}
	return n
}

// Ids of media are forgotten when no text has them any more, and not before.
func TestMediaIDsAreForgotten(t *testing.T) {
	t.Parallel()
	s := see(t, "archs/llama.gguf", seeingConfig())
	s.ask(t, s.request(false))
	s.loop.mu.Lock()
	defer s.loop.mu.Unlock()
	ids := s.engine.mediaIDs
	kept, _ := ids.byHash[s.media[0].Hash]
	for i := range leastMediaIDs {
		ids.release([]*mediaID{ids.hold(sha256.Sum256(fmt.Append(nil, "gone", i)))})
	}
	s.loop.sweepMedia()
	if n := len(ids.byID); n != 2 || len(ids.byHash) != 2 || ids.byID[kept.id] != kept {
		t.Errorf("%d ids are left, want those of the two pictures in the cache", n)
	}
	s.loop.tree.Clear()
	for i := range s.loop.slots {
		s.loop.slots[i].ids = nil
	}
	ids.room = 0
	if s.loop.sweepMedia(); len(ids.byID) != 0 {
		t.Errorf("%d ids are left of texts that are gone", len(ids.byID))
	}
}
