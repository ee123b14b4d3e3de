package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/scripted"
)

// headFor writes a head for a model, and returns both as the tests' open takes them.
func headFor(t *testing.T, path string, h scripted.Head) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		raw, err = h.GGUF(raw)
	}
	head := filepath.Join(t.TempDir(), "head.gguf")
	if err == nil {
		err = os.WriteFile(head, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path + besideHead + head
}

// Whatever a head of random weights drafts, the text is the same.
func TestHeadDoesNotChangeAText(t *testing.T) {
	t.Parallel()
	eagle := scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 2}}
	mapped := eagle
	mapped.Guesses, mapped.NormResidual = 90, true
	flash := scripted.Head{Arch: "dflash", Inputs: []int{0, 2}}
	windows := scripted.Head{Arch: "dflash", Inputs: []int{1}, Guesses: 90, Keys: map[string]any{
		"attention.sliding_window": uint32(16), "attention.sliding_window_pattern": []bool{true, false},
	}}
	for _, kind := range []struct {
		name   string
		path   string
		head   scripted.Head
		c      Config
		memory float64
	}{
		{"eagle3", tiny, eagle, Config{KV: kvcache.Both(kvcache.I16)}, 2.3},
		{"eagle3 of a recurrent model", testdata.Path(t, "archs/qwen35.gguf"), mapped, Config{KV: kvcache.Both(kvcache.Q8)}, 6},
		{"eagle3 in tiers", tiny, mapped, Config{Tiers: tiersOf(t, "64:i16,*:q8_0")}, 6},
		{"eagle3 in shifted contexts", tiny, eagle, Config{Shift: true}, 6},
		{"the drafter of Gemma 4", testdata.Path(t, "archs/gemma4.gguf"), scripted.Head{Arch: "gemma4-assistant"}, Config{KV: kvcache.Both(kvcache.Q8)}, 2.6},
		{"dflash", tiny, flash, Config{KV: kvcache.Both(kvcache.I16)}, 2.3},
		{"dflash of a recurrent model", testdata.Path(t, "archs/qwen35.gguf"), windows, Config{KV: kvcache.Both(kvcache.Q8)}, 6},
		{"dflash in tiers", tiny, windows, Config{Tiers: tiersOf(t, "64:i16,*:q8_0")}, 6},
		{"dflash in shifted contexts", tiny, flash, Config{Shift: true}, 6},
	} {
		sameTexts(t, kind.name, headFor(t, kind.path, kind.head), kind.c, kind.memory, draft.Head)
	}
}

// A head that knows the model is always right: alone and among others, from a prefix, a slot file, and when the model has slept.
func TestHeadIsRight(t *testing.T) {
	t.Parallel()
	path, prompt := sayings(t, 150)
	rightDrafts(t, headFor(t, path, scripted.Head{Arch: "eagle3", Inputs: []int{1}, Knows: true}), prompt, draft.Head)
}

// What a head guesses follows from the text, whatever its slices were, and the drafts that were verified or rejected before.
func TestHeadGuessesTheSame(t *testing.T) {
	guessesTheSame(t, "eagle3", headFor(t, tiny, scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 2}}))
	guessesTheSame(t, "eagle3 of a recurrent model",
		headFor(t, testdata.Path(t, "archs/qwen35.gguf"), scripted.Head{Arch: "eagle3", Inputs: []int{1, 2, 4}, NormInputs: true}))
	guessesTheSame(t, "the drafter of Gemma 4", headFor(t, testdata.Path(t, "archs/gemma4.gguf"), scripted.Head{Arch: "gemma4-assistant"}))
	guessesTheSame(t, "dflash", headFor(t, tiny, scripted.Head{Arch: "dflash", Inputs: []int{0, 1, 2}}))
}

// A head that there is no memory for is refused with its model, and its memory counts as the model's.
func TestHeadNeedsMemory(t *testing.T) {
	path := headFor(t, tiny, scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 2}, NEmbd: 512})
	plain := open(t, tiny, Config{Ctx: 64})
	with := open(t, path, Config{Ctx: 64, MTP: true})
	if a, b := plain.taken.Load(), with.taken.Load(); b < a+4*(512*301+3*32*512) {
		t.Errorf("%d bytes with the head, %d without", b, a)
	}
	need := with.taken.Load() + with.kv.Reserved()
	model1, head, _ := strings.Cut(path, besideHead)
	file, err := model.OpenFile(model1)
	if err != nil {
		t.Fatal(err)
	}
	h, err := model.OpenFile(head)
	if err == nil {
		err = file.DraftBy(h)
	}
	if err != nil {
		t.Fatal(err)
	}
	small := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(need*2/3, "test")})
	_, err = New(file, Config{Device: small, Ctx: 64, MTP: true, Residency: model.Packed})
	if err == nil || !strings.Contains(err.Error(), "no head that drafts") {
		t.Errorf("with too little memory: %v", err)
	}
	if e := open(t, path, Config{Ctx: 64}); e.mtp != nil || !slices.Equal(greedy(t, e, []int32{1, 5}, 8), greedy(t, with, []int32{1, 5}, 8)) {
		t.Error("a head drafts that was not asked for, or changes a text")
	}
}
