package engine

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model/nn"
)

// What is beside the model's passes knows media by their ids: drafts, the shift of a context, pages on disk.

// Drafts of a draft model, of the model's own layers and of the text itself change nothing of an answer to pictures. A draft
// model, which is blind, guesses the text behind them.
func TestMediaDrafts(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		path    string
		sources draft.Set
	}{
		{"archs/llama.gguf", 1 << draft.Model}, {"mmproj/text/qwen3vl-4k.gguf", 1 << draft.NGram},
		{nextOf(t, "qwen35", 3), 1 << draft.MTP}, {"archs/gemma3.gguf", draft.All},
	} {
		d := device(t, 1)
		c := seeingConfig()
		c.Device, c.MTP = d, kind.sources == 1<<draft.MTP
		s := see(t, kind.path, c)
		s.engine.timeless = true
		if kind.sources.Has(draft.Model) {
			small := open(t, testdata.Path(t, kind.path), Config{Device: d, Ctx: 320, Sequences: 2})
			small.timeless = true
			if err := s.engine.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
				t.Fatal(err)
			}
		}
		s.ids = append(s.ids, slices.Repeat(randomIDs(s.engine, 5, 6), 6)...) // there is something to guess from
		r := s.request(true)
		r.MaxTokens = 40
		_, want := s.ask(t, r)
		r = s.request(true)
		r.MaxTokens = 40
		r.Draft = draft.Options{Sources: kind.sources, Max: 6}
		u, got := s.ask(t, r)
		if !slices.Equal(tokenIDs(got), tokenIDs(want)) || got[39].Logprob != want[39].Logprob {
			t.Errorf("%s: %v with drafts of %v, %v without", kind.path, tokenIDs(got), kind.sources, tokenIDs(want))
		}
		if n, _ := u.Drafted.Total(); n == 0 && kind.sources != draft.All && kind.sources != 1<<draft.NGram {
			t.Errorf("%s: %v has drafted nothing", kind.path, kind.sources)
		}
	}
}

// A context with pictures is shifted behind them, and where places are not positions it ends.
func TestMediaShift(t *testing.T) {
	t.Parallel()
	for path, shifts := range map[string]bool{"archs/llama.gguf": true, "mmproj/text/qwen3vl-4k.gguf": false} {
		c := seeingConfig()
		c.Ctx, c.Shift = 200, true
		s := see(t, path, c)
		r := s.request(true)
		r.MaxTokens, r.TopLogprobs = 60, -1
		_, k := submit(t, s.loop, r)
		res := k.wait(t)
		switch {
		case res.Err != nil:
			t.Errorf("%s: %v", path, res.Err)
		case shifts && (res.Shifts == 0 || res.Finish != generate.MaxedOut):
			t.Errorf("%s: %+v, want shifts", path, res)
		case !shifts && (res.Shifts > 0 || res.Finish != generate.CtxFull || res.Generated != 20):
			t.Errorf("%s: %+v, want the end of the context", path, res)
		}
		if got := s.engine.shiftOf(&generate.Params{Prompt: s.ids, Keep: 5}, placedAt(20, 70, 130, 33)); shifts != (got.Keep == 163) {
			t.Errorf("%s: %+v, with pictures up to token 163", path, got)
		}
	}
}

// placedAt returns media, each of its first token and its tokens.
func placedAt(at ...int) (list []placed) {
	for pair := range slices.Chunk(at, 2) {
		list = append(list, placed{Medium: Medium{At: pair[0], Tokens: pair[1]}})
	}
	return list
}

// Pages on disk are found again by the hashes of pictures, whatever their ids are by then.
func TestMediaOnDisk(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"mmproj/text/qwen3vl-4k.gguf", "archs/gemma3.gguf", "archs/qwen35.gguf"} {
		dir, path := t.TempDir(), mediaKind(t, path)
		ask := func(l *Loop, seed uint64) (Usage, []generate.Token) {
			t.Helper()
			s := &seen{engine: l.e, loop: l}
			s.show(t, randomPicture(t, l.e, 20, 70, 1), randomPicture(t, l.e, 130, 33, seed))
			return s.ask(t, s.request(false))
		}
		l := diskLoop(t, path, dir, seeingConfig())
		_, want := ask(l, 2)
		l.Close()
		l = diskLoop(t, path, dir, seeingConfig())
		l.e.mediaIDs.last = -100
		if u, _ := ask(l, 3); u.CachedTokens > 130 {
			t.Errorf("%s: %d tokens of another picture", path, u.CachedTokens)
		}
		u, got := ask(l, 2)
		sameTokens(t, "from disk", got, want)
		if u.CachedTokens < 128 {
			t.Errorf("%s: %d tokens were on disk", path, u.CachedTokens)
		}
	}
}

// Vectors of texts with pictures depend on these, and are the same in slices.
func TestMediaVectors(t *testing.T) {
	t.Parallel()
	vector := func(batch int, seed uint64) []float32 {
		c := seeingConfig()
		c.Batch = batch
		s := see(t, "mmproj/text/qwen3vl-4k.gguf", c)
		s.show(t, randomPicture(t, s.engine, 20, 70, seed))
		e, err := s.loop.Embedding(len(s.ids), nn.PoolLast)
		if err != nil {
			t.Fatal(err)
		}
		r := s.request(false)
		r.MaxTokens, r.TopLogprobs, r.Reader = 0, -1, e
		s.ask(t, r)
		return slices.Clone(e.Vectors()[0])
	}
	first := vector(16, 1)
	if !slices.Equal(first, vector(256, 1)) {
		t.Error("another vector in slices")
	}
	if slices.Equal(first, vector(256, 2)) {
		t.Error("the same vector of another picture")
	}
}
