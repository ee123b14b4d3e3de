package engine

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
)

// Every kind of model of the test data has the same bits in one pass and in slices, alone and in company, with drafts, going on
// from a text that was kept, after it made room for another, and from a slot file.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(testdata.Path(t, "archs"), "*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("../model/testdata/archs/*.gguf")
	if err != nil || len(own) == 0 || len(paths) == 0 {
		t.Fatalf("%d and %d models: %v", len(paths), len(own), err)
	}
	for _, path := range append(paths, own...) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			f, err := model.OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := f.Config()
			f.Close()
			if err != nil {
				t.Fatal(err)
			}
			if cfg.BothWays {
				readsInCompany(t, path)
				return
			}
			c := kindConfig
			c.Ctx = min(c.Ctx, cfg.NCtx)
			k := &kind{path: path, engine: open(t, path, c)}
			k.ids = randomIDs(k.engine, 5, kindPrompt)
			if len(cfg.Encoder) == 0 {
				k.isCut(t)
			}
			k.begin(t)
			if len(cfg.Encoder) == 0 {
				k.goesOn(t)
				k.isRestored(t)
			}
			k.inCompany(t)
			k.makesRoom(t)
			checkBlocks(t, k.loop)
		})
	}
}

// A kind is a model, and what it says of a text alone.
type kind struct {
	path   string
	engine *Engine
	loop   *Loop
	ids    []int32
	answer []generate.Token
}

// kindConfig has room for texts beside each other. A text of kindPrompt and kindAnswer tokens reaches into a second block.
var kindConfig = Config{Sequences: 4, Ctx: 192, Batch: 128, Shared: true}

const kindPrompt, kindAnswer = 80, 8

// isCut evaluates the text in one pass, in slices, and in company.
func (k *kind) isCut(t *testing.T) {
	want := logits(t, k.engine, k.ids, nil)
	s := k.engine.NewSequence()
	defer s.Close()
	got := map[int][]float32{}
	for at := 0; at < len(k.ids); at += 7 {
		err := k.engine.Eval(t.Context(), s, k.ids[at:min(at+7, len(k.ids))], 0, func(i int, logits []float32) error {
			got[at+i] = slices.Clone(logits)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mustEqual(t, "in slices", got, want)
	together(t, k.engine, k.ids, want)
}

// begin answers the text alone.
func (k *kind) begin(t *testing.T) {
	var err error
	if k.loop, err = NewLoop(k.engine, LoopConfig{Queue: 100}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.loop.Close)
	freely(k.loop)
	_, k.answer = k.ask(t, k.request(k.ids, true))
}

// request asks for an answer with all of its logits, as logprobs, and with the cache or without.
func (k *kind) request(prompt []int32, alone bool) *Request {
	r := greedyRequest(prompt, kindAnswer)
	r.NoCache = alone
	r.TopLogprobs = min(k.engine.Model().Config.NVocab, generate.MaxTopLogprobs)
	return r
}

func (k *kind) ask(t *testing.T, r *Request) (Usage, []generate.Token) {
	t.Helper()
	u, _ := ask(t, k.loop, r)
	return u, r.Sink.(*catcher).logs
}

// inCompany answers several texts at a time, of which some have drafts: half of them right, or all.
func (k *kind) inCompany(t *testing.T) {
	text := k.said()
	var asked []*Request
	for i, prompt := range [][]int32{k.ids, k.ids[:30], k.ids, k.ids} {
		r := k.request(prompt, true)
		if i > 1 {
			r.Draft = draft.Options{Max: 2 + i, Record: &draft.Recording{Text: text, Right: 0.25 * float64(i)}, Sources: draft.All}
		}
		submit(t, k.loop, r)
		asked = append(asked, r)
	}
	for i, r := range asked {
		c := r.Sink.(*catcher)
		if res := c.wait(t); res.Err != nil {
			t.Fatal(res.Err)
		}
		if i != 1 {
			sameTokens(t, "in company", c.logs, k.answer)
		}
	}
	if guessed, _ := k.loop.Status().Counts.Drafted.Total(); guessed == 0 && len(k.engine.Model().Config.Encoder) == 0 {
		t.Error("no draft was verified")
	}
}

// goesOn asks again after an answer.
func (k *kind) goesOn(t *testing.T) {
	_, first := k.ask(t, k.request(k.ids, false))
	sameTokens(t, "with a cache", first, k.answer)
	next := append(k.said(), k.ids[3:9]...)
	_, want := k.ask(t, k.request(next, true))
	u, got := k.ask(t, k.request(next, false))
	sameTokens(t, "going on", got, want)
	if u.CachedTokens < kindPrompt {
		t.Errorf("%d tokens of %d were in the cache", u.CachedTokens, len(next))
	}
}

// said is the text with its answer.
func (k *kind) said() []int32 {
	text := slices.Clone(k.ids)
	for _, tok := range k.answer {
		text = append(text, tok.ID)
	}
	return text
}

// isRestored saves the text, forgets it, and goes on from the file.
func (k *kind) isRestored(t *testing.T) {
	r := k.request(k.ids, false)
	r.Slot = 1
	k.ask(t, r)
	var file strings.Builder
	saved, err := k.loop.SaveSlot(1, "", &file)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range kindConfig.Sequences {
		if _, err := k.loop.EraseSlot(slot, ""); err != nil {
			t.Fatal(err)
		}
	}
	next := k.said()
	_, want := k.ask(t, k.request(next, true))
	if got, err := k.loop.RestoreSlot(0, "", strings.NewReader(file.String())); err != nil || got != saved {
		t.Fatalf("restored %+v of %+v, %v", got, saved, err)
	}
	u, got := k.ask(t, k.request(next, false))
	sameTokens(t, "from a slot file", got, want)
	if u.CachedTokens != saved.Tokens || saved.Tokens != len(next)-1 {
		t.Errorf("%d tokens were found of %d, want all but the last of %d", u.CachedTokens, saved.Tokens, len(next))
	}
}

// makesRoom has a text preempted by another that takes its memory.
func (k *kind) makesRoom(t *testing.T) {
	c := kindConfig
	c.Sequences, c.Ctx = 1, kindPrompt+kindAnswer+1
	c.KVBytes = least(k.engine.kv.Layout(), c.Ctx)
	l := openLoop(t, k.path, c, LoopConfig{})
	begun, both := make(chan struct{}), make(chan struct{})
	first := k.request(k.ids, false)
	first.Sink.(*catcher).on = func(n int) {
		if n == 3 {
			close(begun)
			<-both
		}
	}
	submit(t, l, first)
	<-begun
	second := k.request(append(k.ids[40:len(k.ids):len(k.ids)], k.ids[:40]...), false)
	second.Priority = 1
	_, want := k.ask(t, k.request(second.Prompt, true))
	submit(t, l, second)
	close(both)
	res := first.Sink.(*catcher).wait(t)
	if res.Err != nil || res.Preempted == 0 {
		t.Errorf("%+v: it was not preempted", res)
	}
	sameTokens(t, "after it made room", first.Sink.(*catcher).logs, k.answer)
	if res := second.Sink.(*catcher).wait(t); res.Err != nil {
		t.Error(res.Err)
	}
	sameTokens(t, "which another made room for", second.Sink.(*catcher).logs, want)
	checkBlocks(t, l)
}

// sameTokens compares answers: their ids, and the logprobs of all tokens.
func sameTokens(t *testing.T, what string, got, want []generate.Token) {
	t.Helper()
	same := func(a, b generate.Token) bool {
		return a.ID == b.ID && a.Logprob == b.Logprob && slices.Equal(a.Top, b.Top)
	}
	if len(want) != kindAnswer || len(want[0].Top) == 0 {
		t.Fatalf("%s: %d tokens are compared", what, len(want))
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("%s the answer is another one: %v, want %v", what, tokenIDs(got), tokenIDs(want))
	}
}

func tokenIDs(tokens []generate.Token) (ids []int32) {
	for _, tok := range tokens {
		ids = append(ids, tok.ID)
	}
	return ids
}

// readsInCompany makes vectors of texts, alone and together.
func readsInCompany(t *testing.T, path string) {
	e := open(t, path, Config{Ctx: 100, Batch: 64, Vectors: true})
	var texts [][]int32
	for i, n := range []int{100, 1, 40} {
		texts = append(texts, randomIDs(e, uint64(i), n))
	}
	together := embedAll(t, e, texts, nn.PoolNone)
	for i := range texts {
		alone := embedAll(t, e, texts[i:i+1], nn.PoolNone)[0]
		if len(alone) != len(texts[i]) || !slices.EqualFunc(alone, together[i], slices.Equal[[]float32]) {
			t.Errorf("%d vectors of a text of %d tokens, others in company", len(alone), len(texts[i]))
		}
	}
}
