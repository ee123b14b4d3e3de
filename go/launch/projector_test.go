package launch

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// copied copies a file of the test data to a folder under another name, and returns its path.
func copied(t *testing.T, dir, name, from string) string {
	t.Helper()
	b, err := os.ReadFile(testdata.Path(t, from))
	path := filepath.Join(dir, name)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A model has the projector that is named, or the one beside it that fits; and none where that is said.
func TestProjector(t *testing.T) {
	dir, text := t.TempDir(), "mmproj/text/qwen2vl-4k.gguf"
	alone := copied(t, t.TempDir(), "alone.gguf", text)
	m := copied(t, dir, "m-F16.gguf", text)
	eyes := copied(t, dir, "mmproj-m-F16.gguf", "mmproj/mm/qwen2vl-f16.gguf")
	small := tinyModel(t) // which has another width
	beside := copied(t, filepath.Dir(small), "mmproj-F16.gguf", "mmproj/mm/qwen2vl-f16.gguf")
	for _, c := range []struct {
		name, model string
		s           Settings
		want        string // the projector
		note, err   string
	}{
		{name: "none", model: alone},
		{name: "named", model: alone, s: Settings{Projector: eyes}, want: eyes},
		{name: "beside", model: m, want: eyes},
		{name: "refused", model: m, s: Settings{NoProjector: true}},
		{name: "both", model: m, s: Settings{NoProjector: true, Projector: eyes}},
		{name: "embedded", model: demo.Vision, want: demo.Vision},
		{name: "embedded, with none", model: demo.Name},
		{name: "no projector", model: m, s: Settings{Projector: alone}, err: "no projector"},
		{name: "no file", model: m, s: Settings{Projector: filepath.Join(dir, "gone.gguf")}, err: "gone.gguf"},
		{name: "of another model", model: small, s: Settings{Projector: eyes}, err: "64 wide"},
		{name: "of another model, beside", model: small, note: "left out: " + beside},
	} {
		t.Run(c.name, func(t *testing.T) {
			var files Files
			h, err := files.ReadHead(c.model, c.s)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			note := ""
			m, err := h.OpenAlone(DeviceSettings{Threads: 1, Memory: 1 << 30}, Events{Note: func(line string) { note += line }})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if c.want != "" != m.Projector.Takes(chat.Picture) {
				t.Errorf("sees %v", m.Projector.Takes(chat.Picture))
			}
			if h.projector != c.want || !strings.Contains(note, c.note) || c.note == "" && note != "" {
				t.Errorf("%q and the note %q, want %q and %q", h.projector, note, c.want, c.note)
			}
		})
	}
}

// A folder with a checkpoint that has encoders is its own projector, unless that is not wanted.
func TestProjectorOfFolder(t *testing.T) {
	dir := t.TempDir()
	header := `{"model.vision_embedder.patch_dense.weight": {"dtype": "F32", "shape": [1, 3], "data_offsets": [0, 12]}}`
	for name, text := range map[string]string{
		"config.json":       `{"architectures": ["Gemma4UnifiedForConditionalGeneration"], "text_config": {"hidden_size": 8}, "vision_config": {"patch_size": 1}}`,
		"model.safetensors": string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("\x00", 12),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		s    Settings
		want string
	}{{Settings{}, dir}, {Settings{NoProjector: true}, ""}} {
		h := &Head{Path: dir, Settings: c.s}
		if err := (&Files{}).readProjector(h); err != nil || h.projector != c.want {
			t.Errorf("%+v: %q, %v, want %q", c.s, h.projector, err, c.want)
		}
	}
}

// What a model takes counts the encoders that come with it.
func TestNeedOfProjector(t *testing.T) {
	dir := t.TempDir()
	path := copied(t, dir, "m-F16.gguf", "mmproj/text/qwen2vl-4k.gguf")
	eyes := copied(t, dir, "mmproj-m-F16.gguf", "mmproj/mm/qwen2vl-f16.gguf")
	d, err := DeviceSettings{Threads: 1}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	need := func(s Settings, room uint64) (uint64, error) {
		h, err := (&Files{}).ReadHead(path, s)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		return h.Need(d, room)
	}
	blind, err := need(Settings{Ctx: 256, NoProjector: true}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(eyes)
	if err != nil {
		t.Fatal(err)
	}
	seeing, err := need(Settings{Ctx: 256}, 1<<30)
	if more := int64(seeing - blind); err != nil || more < info.Size()/2 || more > 2*info.Size() {
		t.Errorf("%d bytes with a projector of %d, without %d: %v", seeing, info.Size(), blind, err)
	}
	if _, err = need(Settings{Ctx: 256}, uint64(info.Size())); !errors.As(err, new(*engine.FitError)) {
		t.Errorf("too little for the projector: %v", err)
	}
}
