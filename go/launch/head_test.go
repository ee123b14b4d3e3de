package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/synth"
)

// tinyModel writes a model with random weights.
func tinyModel(t testing.TB) string {
	t.Helper()
	m, err := synth.ParseShape("tiny:Q4_K_M")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if _, err := m.WriteFile(context.Background(), path, false); err != nil {
		t.Fatal(err)
	}
	return path
}

// layersFor writes layers that draft for the demo model.
func layersFor(t *testing.T, h scripted.Head) string {
	t.Helper()
	raw, err := h.GGUF(demo.GGUF())
	path := filepath.Join(t.TempDir(), "head.gguf")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A model is opened once: where another file takes its name before the weights
// are read, tokenizer and weights are still of the same one.
func TestModelIsOpenedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, demo.GGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	var files Files
	head, err := files.ReadHead(path, Settings{Ctx: 64, Batch: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tinyModel(t), path); err != nil {
		t.Fatal(err)
	}
	m, err := head.OpenAlone(DeviceSettings{Threads: 1}, Events{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Engine.Model().GGUF() != head.File.GGUF {
		t.Error("weights of another file than the tokenizer")
	}
	if n := head.Tokenizer.Len(); n > m.Engine.Model().Config.NVocab {
		t.Errorf("a tokenizer of %d tokens, %d rows of logits", n, m.Engine.Model().Config.NVocab)
	}
}

// Layers that were trained for a model become part of its file where their drafts are wanted, and nowhere else.
func TestLayersOfADraft(t *testing.T) {
	good := layersFor(t, scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 2}})
	bad := layersFor(t, scripted.Head{Arch: "eagle3", Inputs: []int{0, 1, 99}})
	plain, err := (&Files{}).ReadHead(demo.Name, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, test := range []struct {
		sources string
		path    string
		joined  bool
		refusal string
	}{
		{"head", good, true, ""},
		{"mtp", good, false, ""},
		{"head", bad, false, "layer 99"},
		{"off", bad, false, ""},
	} {
		sources, err := draft.ParseSet(test.sources)
		if err != nil {
			t.Fatal(err)
		}
		h, err := (&Files{}).ReadHead(demo.Name, Settings{Draft: Draft{Sources: sources, Path: test.path}})
		if err != nil {
			if test.refusal == "" || !strings.Contains(err.Error(), test.refusal) {
				t.Errorf("%s: %v, want %q", test.sources, err, test.refusal)
			}
			continue
		}
		grown := len(h.File.GGUF.Tensors) > len(plain.File.GGUF.Tensors)
		mtp, arch := h.EngineConfig().MTP, h.Config.Head.Arch
		if test.refusal != "" || grown != test.joined || mtp != test.joined || (arch != "") != test.joined {
			t.Errorf("%s: the file has grown: %v, MTP %v, head %q; want %v, %q",
				test.sources, grown, mtp, arch, test.joined, test.refusal)
		}
		h.Close()
	}
}

// A draft model is opened beside the model, and what does not fit says what would.
func TestDraftModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := os.WriteFile(path, demo.GGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	with, without := Settings{Ctx: 256, Draft: Draft{Sources: draft.Defaults.Sources, Path: path}}, Settings{Ctx: 256}
	m, err := Open(demo.Name, with, DeviceSettings{Threads: 1}, Events{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Drafts == nil || m.Drafts.Model().GGUF() == m.Engine.Model().GGUF() {
		t.Errorf("the draft model is %v", m.Drafts)
	}
	need := func(s Settings, room uint64) (uint64, error) {
		h, err := (&Files{}).ReadHead(demo.Name, s)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		return h.Need(m.Device, room)
	}
	alone, err := need(without, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	both, err := need(with, 1<<30)
	if err != nil || both <= alone {
		t.Errorf("with its draft model it needs %d bytes, without %d: %v", both, alone, err)
	}
	_, err = need(with, both-(both-alone)/2)
	var fit *engine.FitError
	limit, _ := m.Device.Budget().Limit()
	if !errors.As(err, &fit) || fit.Limit != limit || !strings.Contains(err.Error(), "without --model-draft") {
		t.Errorf("too little memory for both: %v", err)
	}
}

// A model whose parts cannot be opened leaves nothing on the device.
func TestWhatFailsIsClosed(t *testing.T) {
	d, err := DeviceSettings{Threads: 1}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := d.Budget().Used()
	s := Settings{Ctx: 64, Adapters: []Adapter{{Name: "a", Path: "none.gguf", Scale: 1}}}
	h, err := (&Files{}).ReadHead(demo.Name, s)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := h.Open(t.Context(), d, Events{}); err == nil || m != nil || !strings.Contains(err.Error(), "none.gguf") {
		t.Errorf("an adapter that is not there: %v, %v", m, err)
	}
	if used := d.Budget().Used(); used != before {
		t.Errorf("%d bytes are in use, before it was %d", used, before)
	}
}

func TestContext(t *testing.T) {
	for _, test := range []struct{ ctx, trained, want, positions int }{
		{0, 100, 100, 100}, {0, 1 << 20, 1 << 20, 1 << 20}, {-1, 100, 100, 100}, {-1, 1 << 20, DefaultCtx, DefaultCtx}, {7, 100, 7, 7}, {200, 100, 200, 100},
	} {
		for _, positions := range []bool{false, true} {
			want := test.want
			if positions { // and no more have an embedding
				want = test.positions
			}
			if got := (&Settings{Ctx: test.ctx}).Context(&model.Config{NCtx: test.trained, Positions: positions}); got != want {
				t.Errorf("%+v, positions %v: got %d", test, positions, got)
			}
		}
	}
}
