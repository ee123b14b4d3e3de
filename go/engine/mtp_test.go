package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/scripted"
)

// mtpOnly drafts with MTP layers only.
var mtpOnly = draft.Options{Sources: 1 << draft.MTP, Max: 6}

// nextOf writes a model of test data with MTP layers of random weights.
func nextOf(t *testing.T, name string, like ...int) string {
	t.Helper()
	raw, err := os.ReadFile(testdata.Path(t, "archs/"+name+".gguf"))
	if err == nil {
		raw, err = scripted.WithNext(raw, like...)
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Drafts of an MTP layer of random weights change no text: alone and among others, with little memory, with
// recurrent state, with KV caches of any type, with tiers by age, or with shifted contexts.
func TestMTPDoesNotChangeAText(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name   string
		like   int // the layer that the one that drafts is like
		c      Config
		memory float64 // contexts that there is memory for
	}{
		{"qwen35", 3, Config{KV: kvcache.Both(kvcache.Q8)}, 6}, {"glm4moe", 2, Config{KV: kvcache.Both(kvcache.I16)}, 2.3},
		{"glm4moe", 2, Config{Tiers: tiersOf(t, "64:i16,*:q8_0")}, 6}, {"glm4moe", 2, Config{Shift: true}, 6},
	} {
		sameTexts(t, kind.name, nextOf(t, kind.name, kind.like), kind.c, kind.memory, draft.MTP)
	}
	sameTexts(t, "three layers", nextOf(t, "qwen35", 3, 3, 3), Config{KV: kvcache.Both(kvcache.I16)}, 6, draft.MTP)
}

// sameTexts compares texts of a model, alone and among others, with drafts of a source that reads its hidden
// states, with the texts without drafts. memory is in contexts.
func sameTexts(t *testing.T, name, path string, c Config, memory float64, source draft.Source) {
	t.Helper()
	const n = 36
	only, shifts := draft.Options{Sources: 1 << source, Max: 6}, c.Shift
	c.Ctx, c.Batch = 128, 24
	probe := open(t, path, c) // without
	c.MTP = true
	own := open(t, path, c)
	own.timeless = true
	c.Sequences, c.Batch = 6, 48
	c.KVBytes = uint64(float64(least(own.kv.Layout(), 128)) * memory)
	l := openLoop(t, path, c, LoopConfig{})
	freely(l)
	if err := own.MTP(); err != nil || l.e.mtp == nil {
		t.Fatalf("%s: no layer drafts: %v", name, err)
	}
	var wg sync.WaitGroup
	prompt := randomIDs(probe, 5, 70)
	for variant, made := range variants(t, probe, prompt, n) {
		params := func() generate.Params {
			p := made()
			if p.MaxTokens < 0 && shifts { // it would not end
				p.MaxTokens = 100
			}
			return p
		}
		want, finish := alone(t, probe, params())
		for k, options := range []draft.Options{only, draft.Defaults} {
			p := params()
			p.Draft = options
			if got, f := alone(t, own, p); !slices.Equal(got, want) || f != finish {
				t.Errorf("%s, %s, alone: %v, %s; without %v, %s", name, variant, got, f, want, finish)
			}
			p = params()
			p.Draft = options
			sink := newCatcher()
			if _, err := l.Submit(&Request{Params: p, Priority: k, Slot: -1, Sink: sink}); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				sink.said(t, name+", "+variant, want, finish)
			})
		}
	}
	wg.Wait()
	checkBlocks(t, l)
	counts := l.Status().Counts
	if counts.Drafted[source].Guessed == 0 {
		t.Errorf("%s: nothing was drafted: %v", name, counts.Drafted)
	}
	if memory < 3 && counts.Preemptions+counts.EvictedBlocks == 0 {
		t.Errorf("%s: memory was never short", name)
	}
}

// sayings writes a model that generates a text of at least so many tokens, with an MTP layer whose guesses are
// always right: it computes from a token alone what the model does. It returns the path and the prompt.
func sayings(t *testing.T, tokens int) (path string, prompt []int32) {
	t.Helper()
	var text strings.Builder
	for i := range tokens {
		fmt.Fprintf(&text, "%04d", i)
	}
	said := scripted.Model{Scripts: []scripted.Script{{Text: text.String()}}}
	raw, err := said.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		if kv.Key == "llama.block_count" {
			kv.Value = uint32(2)
		}
		w.Set(kv.Key, kv.Value)
	}
	w.Set("llama.nextn_predict_layers", uint32(1))
	var width uint64
	for _, x := range f.Tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
		rest, ok := strings.CutPrefix(x.Name, "blk.0.")
		if ok {
			w.AddTensor("blk.1."+rest, x.Type, x.Dims, gguf.Bytes(x.Data))
		}
		if rest == "attn_norm.weight" {
			width = x.Dims[0]
			for _, norm := range []string{"enorm", "hnorm"} {
				w.AddTensor("blk.1.nextn."+norm+".weight", x.Type, x.Dims, gguf.Bytes(x.Data))
			}
		}
	}
	same := make([]float32, 2*width*width)
	for i := range width {
		same[i*2*width+i] = 1
	}
	data, err := binary.Append(nil, binary.LittleEndian, same)
	if err != nil {
		t.Fatal(err)
	}
	w.AddTensor("blk.1.nextn.eh_proj.weight", gguf.F32, []uint64{2 * width, width}, gguf.Bytes(data))
	path = filepath.Join(t.TempDir(), "sayings.gguf")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := w.WriteTo(out); err != nil {
		t.Fatal(err)
	}
	return path, []int32{257} // 256 bytes, and the end
}

// An MTP layer that is right stays right: alone and among others, from a cached prefix, after a slot file, and
// after the model has slept.
func TestMTPIsRight(t *testing.T) {
	path, prompt := sayings(t, 150)
	rightDrafts(t, path, prompt, draft.MTP)
}

// rightDrafts compares a model, and what drafts for it, with a text of 150 tokens that both generate.
func rightDrafts(t *testing.T, path string, prompt []int32, source draft.Source) {
	t.Helper()
	only := draft.Options{Sources: 1 << source, Max: 6}
	c := Config{Ctx: 400, MTP: true, Sequences: 3, Batch: 64}
	own := open(t, path, c)
	own.timeless = true
	p := likeliest(prompt, 60)
	want, _ := alone(t, open(t, path, Config{Ctx: 400}), p)
	p.Draft = only
	s := own.NewSequence()
	defer s.Close()
	st, err := own.Generate(t.Context(), s, p, func(int32) error { return nil })
	if d := st.Drafted[source]; err != nil || d.Guessed < 40 || d.Right != d.Guessed || st.Passes > 20 || !slices.Equal(s.Tokens()[1:], want[:59]) {
		t.Errorf("alone: %+v, %v, %v", st, err, s.Tokens())
	}

	l := openLoop(t, path, c, LoopConfig{})
	freely(l)
	ask := func(what string, prompt []int32, n, cached int) Result {
		t.Helper()
		r := greedyRequest(prompt, n)
		r.Draft = only
		_, sink := submit(t, l, r)
		res := sink.wait(t)
		at := len(prompt) - 1
		if d := res.Drafted[source]; res.Err != nil || d.Guessed < uint64(n/2) || d.Right != d.Guessed || !slices.Equal(sink.ids, want[at:at+n]) || res.CachedTokens < cached {
			t.Errorf("%s: %+v, %v", what, res, sink.ids)
		}
		return res
	}
	slot := ask("in a loop", prompt, 30, 0).Slot
	ask("from a prefix", slices.Concat(prompt, want[:20]), 24, 16)
	var file bytes.Buffer
	if _, err := l.SaveSlot(slot, "", &file); err != nil {
		t.Fatal(err)
	}
	if err := l.Sleep(); err != nil {
		t.Fatal(err)
	}
	if err := l.Wake(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ask("awake again", slices.Concat(prompt, want[:40]), 16, 1)

	other := openLoop(t, path, c, LoopConfig{})
	freely(other)
	if _, err := other.RestoreSlot(0, "", bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	without := openLoop(t, path, Config{Ctx: 400, Sequences: 3}, LoopConfig{})
	if _, err := without.RestoreSlot(0, "", bytes.NewReader(file.Bytes())); !errors.Is(err, ErrSlotFile) {
		t.Errorf("a model without the layer takes its state: %v", err)
	}
	l = other
	ask("from a slot file", slices.Concat(prompt, want[:28]), 16, 16)
	checkBlocks(t, l)
}

// The layer drafts only for requests that allow it. If there is no memory for it, or none in the file, the model
// runs without.
func TestMTPIsAsked(t *testing.T) {
	path, prompt := sayings(t, 60)
	l := openLoop(t, path, Config{Ctx: 200, MTP: true, Sequences: 2}, LoopConfig{})
	freely(l)
	for _, o := range []draft.Options{{}, {Sources: 1 << draft.NGram, Max: 4}, {Sources: 1 << draft.MTP, Max: 4, MinChance: 0.999}} {
		r := greedyRequest(prompt, 20)
		r.Draft = o
		_, sink := submit(t, l, r)
		if res := sink.wait(t); res.Err != nil || res.Drafted[draft.MTP].Guessed > 20 || !o.Sources.Has(draft.MTP) && res.Drafted[draft.MTP].Guessed > 0 {
			t.Errorf("%+v: %+v", o, res)
		}
	}
	if e := open(t, path, Config{Ctx: 200}); e.mtp != nil || e.MTP() != nil {
		t.Error("a layer drafts that was not asked for")
	}
	if e := open(t, tiny, Config{MTP: true}); e.mtp != nil || e.MTP() == nil {
		t.Error("a layer drafts that the file does not have")
	}
	plain, with := open(t, path, Config{Ctx: 200}), open(t, path, Config{Ctx: 200, MTP: true})
	if a, b := plain.kv.Layout().Bytes(64), with.kv.Layout().Bytes(64); b <= a {
		t.Errorf("with the layer %d bytes are kept of 64 tokens, without %d", b, a)
	}
}

// guessedAtOnce is the maximum number of tokens guessed at a time.
const guessedAtOnce = 6

// guessed generates the greedy text in passes of at most `slice` tokens, verifying the given drafts. It returns
// the text, and the guesses of the layer by the number of known tokens.
func guessed(t *testing.T, e *Engine, prompt []int32, n, slice int, drafts func(known []int32) []int32) ([]int32, map[int][]draft.Guess) {
	t.Helper()
	p := likeliest(prompt, n)
	p.Draft = draft.Options{Sources: 1 << e.mtp.source(), Max: guessedAtOnce}
	g, err := e.generation(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Speculate(e.library, "")
	own := e.mtp.text(g, draft.NewLibrary())
	s := e.NewSequence()
	defer s.Close()
	defer e.device.enter()()
	all := map[int][]draft.Guess{}
	for {
		items := []Item{{Seq: s, IDs: g.Pending(nil, slice)}}
		items[0].Rows = g.Rows(len(items[0].IDs))
		var step generate.Step
		err := e.device.inTurn(func() error {
			if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
				return err
			}
			if err := e.heads(items, func(parts []part) (err error) {
				step, err = g.Advance(len(items[0].IDs), parts[0].rows)
				return err
			}); err != nil {
				return err
			}
			e.mtp.keep(items, []*generate.Generation{g}, []*mtpText{own})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.settle(g)
		if step.Finish != "" {
			return g.Known(), all
		}
		if len(step.Tokens) == 0 {
			continue
		}
		e.mtp.draft([]*mtpText{own}, 1, func(int) time.Duration { return 0 }, func(f func()) { f() })
		if len(own.Found()) > 0 {
			all[len(g.Known())] = slices.Clone(own.Found())
		}
		g.Propose(drafts(g.Known()))
	}
}

// nextAfter returns the layer's guess after a text that is evaluated in one pass.
func nextAfter(t *testing.T, e *Engine, text []int32) (id int32) {
	t.Helper()
	s, last := e.NewSequence(), len(text)-1
	defer s.Close()
	defer e.device.enter()()
	err := e.device.inTurn(func() error {
		if err := e.pass(canceler{ctx: t.Context()}, []Item{{Seq: s, IDs: text[:last]}}); err != nil {
			return err
		}
		e.runner.KeepNext(text[1:])
		hidden := slices.Clone(e.runner.Hidden(last - 1))
		if err := s.table.Grow(1 + guessedAtOnce); err != nil {
			return err
		}
		b := e.runner.Batch()
		b.Reset()
		b.AddSeq(s.table.Units()...)
		if block, mask := e.model.NextBlock(); block > 0 {
			b.Add(text[last], int32(last))
			for i := range guessedAtOnce {
				b.Add(mask, int32(last+1+i))
			}
			e.runner.StepNext(0, nil, []int32{1})
		} else {
			b.Add(text[last], int32(last-1))
			e.runner.StepNext(0, [][]float32{hidden}, []int32{0})
		}
		row, _ := e.runner.Next(0)
		id = int32(slices.Index(row, slices.Max(row)))
		id = e.runner.NextToken(id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The guesses of the layer depend only on the text, not on its slices or on drafts verified or rejected before.
func TestMTPGuessesTheSame(t *testing.T) {
	for _, of := range []struct {
		name string
		like int
	}{{"glm4moe", 2}, {"deepseek2", 2}, {"qwen35", 3}} {
		guessesTheSame(t, of.name, nextOf(t, of.name, of.like))
	}
	guessesTheSame(t, "three layers", nextOf(t, "glm4moe", 2, 2, 2))
}

func guessesTheSame(t *testing.T, name, path string) {
	t.Helper()
	e := open(t, path, Config{Ctx: 200, MTP: true, Batch: 128})
	e.timeless = true
	prompt := randomIDs(e, 3, 50)
	text, want := guessed(t, e, prompt, 40, 64, func([]int32) []int32 { return nil })
	if len(want) < 38 {
		t.Fatalf("%s: guesses after %d tokens", name, len(want))
	}
	for at := len(prompt) + 1; at < len(text)-guessedAtOnce; at += 9 {
		if id := nextAfter(t, e, text[:at]); id != want[at][0].ID {
			t.Errorf("%s: after %d tokens %d is guessed, want %d", name, at, want[at][0].ID, id)
		}
	}
	// Of five drafts the first two are right.
	again, got := guessed(t, e, prompt, 40, 7, func(known []int32) []int32 {
		right := text[len(known):min(len(known)+2, len(text))]
		return slices.Concat(right, randomIDs(e, uint64(len(known)), 3))
	})
	if !slices.Equal(again, text) || len(got) < 5 {
		t.Errorf("%s: another text, or guesses after %d tokens alone", name, len(got))
	}
	for at, list := range got {
		same := func(a, b draft.Guess) bool { return a.ID == b.ID }
		if n := min(len(list), len(want[at])); n == 0 || !slices.EqualFunc(list[:n], want[at][:n], same) {
			t.Errorf("%s: after %d tokens %v, want %v", name, at, list, want[at])
		}
	}
}

// With an adapter, and after its removal, the layer drafts, and texts are those of the model without drafts.
func TestMTPBesideAdapters(t *testing.T) {
	path := nextOf(t, "llama", 1)
	plain, own := open(t, path, Config{Ctx: 200}), open(t, path, Config{Ctx: 200, MTP: true})
	own.timeless = true
	file := writeAdapter(t, plain, 4, 7, "blk.0.attn_q.weight", "blk.0.ffn_down.weight", "output.weight")
	a, b := openAdapter(t, plain, file), openAdapter(t, own, file)
	text := func(e *Engine, list ...ScaledAdapter) (ids []int32, drafted uint64) {
		s := e.NewSequence()
		defer s.Close()
		if err := s.SetAdapters(list); err != nil {
			t.Fatal(err)
		}
		p := likeliest(randomIDs(plain, 3, 30), 30)
		p.Draft = mtpOnly
		st, err := e.Generate(t.Context(), s, p, func(id int32) error { ids = append(ids, id); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return ids, st.Drafted[draft.MTP].Guessed
	}
	want, _ := text(plain, ScaledAdapter{a, 3})
	bare, _ := text(plain)
	if got, n := text(own, ScaledAdapter{b, 3}); !slices.Equal(got, want) || slices.Equal(got, bare) || n == 0 {
		t.Errorf("with an adapter %v, %d drafts, want %v", got, n, want)
	}
	if err := own.detach(b); err != nil {
		t.Fatal(err)
	}
	if got, n := text(own); !slices.Equal(got, bare) || n == 0 {
		t.Errorf("when it is gone %v, %d drafts, want %v", got, n, bare)
	}
}
