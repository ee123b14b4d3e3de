package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
)

// A sightCase is what transformers' encoder of pictures makes of one. scripts/golden_sight.py writes it, and says what its
// fields are.
type sightCase struct {
	Name        string
	More        *projectorCase
	Size, Shape [2]int
	Numbers     []float64
}

// archived returns the cases of a list in a file of testdata/mmproj.
func archived[C any](t *testing.T, name, list string) (cases []C) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(must(os.ReadFile("testdata/mmproj/"+name)), &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[list], &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%s: %d %s, %v", name, len(cases), list, err)
	}
	return cases
}

// TestSights converts the encoders of small checkpoints, and compares what they see with what transformers' see.
func TestSights(t *testing.T) {
	checkpoints := projectorCases(t)
	pool := must(kernel.NewPool(1, nil))
	defer pool.Close()
	for _, c := range archived[sightCase](t, "sights.json", "cases") {
		t.Run(c.Name, func(t *testing.T) {
			of := c.More
			if of == nil {
				of = &checkpoints[slices.IndexFunc(checkpoints, func(x projectorCase) bool { return x.Name == c.Name })]
			}
			dir := t.TempDir()
			of.write(t, dir)
			compareRows(t, c.seen(t, dir, pool), c.Shape, c.Numbers)
		})
	}
}

// unread are the encoders of small checkpoints whose sizes no encoder could have, with a part of what is said of them.
var unread = map[string]string{
	"gemma4/audio hears": "Low 0.", "gemma4/clipped sees": "Low 0.", "gemma4unified sees": "want 108 numbers",
	"gemma4unified hears": "want 640 numbers", "nemotronv2 sees": "image_size", "nemotronv2/omni sees": "want rows of 1280 numbers",
	"deepseekocr sees": "a multiple of 8", "deepseekocr/unlimited sees": "a multiple of 8", "deepseekocr2 sees": "head_count",
	"qwen2vl sees": "shape [32 64]", "qwen2vl/sarashina sees": "shape [32 64]", "step3vl sees": "want rows of 1536 numbers", "step3vl/flash sees": "want rows of 1536 numbers",
}

// TestProjectorsAreRead converts the encoders of small checkpoints, and loads them.
func TestProjectorsAreRead(t *testing.T) {
	pool := must(kernel.NewPool(1, nil))
	defer pool.Close()
	for _, c := range projectorCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			c.write(t, dir)
			m := must(OpenProjector(dir, Options{Type: "f16", Threads: 1}))
			defer m.Close()
			var b bytes.Buffer
			must(m.Write(context.Background(), &b))
			save(t, dir, "mmproj.gguf", b.String())
			f := must(model.OpenFile(filepath.Join(dir, "mmproj.gguf")))
			defer f.Close()
			for _, of := range []struct {
				s         projector.Sense
				key, does string
			}{{projector.Sight, "clip.has_vision_encoder", "sees"}, {projector.Hearing, "clip.has_audio_encoder", "hears"}} {
				if c.Keys[of.key][1] == nil {
					continue
				}
				o := model.Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "a test")}
				e, err := model.LoadEncoder(f, of.s, model.EncoderFile, kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}, o)
				if err == nil {
					e.Close()
				}
				if want, odd := unread[c.Name+" "+of.does]; odd != (err != nil) || odd && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", of.does, err, want)
				}
			}
		})
	}
}

// compareRows compares rows with some of their numbers.
func compareRows(t *testing.T, rows []float32, shape [2]int, numbers []float64) {
	t.Helper()
	if len(rows) != shape[0]*shape[1] {
		t.Fatalf("%d numbers, want %v", len(rows), shape)
	}
	worst := 0.0
	for i, want := range numbers {
		worst = max(worst, math.Abs(float64(rows[i*7919%len(rows)])-want))
	}
	if !(worst < 2e-5) {
		t.Errorf("%.2g off", worst)
	} else {
		t.Logf("%.2g off", worst)
	}
}

// TestHearing converts the encoders of small checkpoints, and compares what they hear with what transformers' hear.
// scripts/golden_sound.py writes the cases, and says what their fields are.
func TestHearing(t *testing.T) {
	type hearingCase struct {
		Name    string
		Samples int
		Shape   [2]int
		Numbers []float64
	}
	checkpoints := projectorCases(t)
	pool := must(kernel.NewPool(1, nil))
	defer pool.Close()
	for _, c := range archived[hearingCase](t, "hearing.json", "cases") {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			checkpoints[slices.IndexFunc(checkpoints, func(x projectorCase) bool { return x.Name == c.Name })].write(t, dir)
			rows := encoded(t, dir, projector.Hearing, pool, func(e *model.Encoder) []projector.Part {
				x := make([]float32, c.Samples)
				for i := range x {
					x[i] = float32(noise(hashOf("sound"), i))
				}
				return e.Hear(x)
			})
			compareRows(t, rows, c.Shape, c.Numbers)
		})
	}
}

// TestHearingOfFiles is TestHearing of kinds that no checkpoint is converted to.
func TestHearingOfFiles(t *testing.T) {
	type hearingFile struct {
		Name    string
		Samples int
		Keys    map[string]any
		Tensors []string
		Shape   [2]int
		Numbers []float64
	}
	pool := must(kernel.NewPool(1, nil))
	defer pool.Close()
	for _, c := range archived[hearingFile](t, "hearing.json", "files") {
		t.Run(c.Name, func(t *testing.T) {
			g := gguf.NewWriter()
			g.Set("general.architecture", "clip")
			g.Set("clip.has_audio_encoder", true)
			kind, _, _ := strings.Cut(c.Name, "/")
			g.Set("clip.projector_type", kind)
			for key, v := range c.Keys {
				switch key = "clip.audio." + key; v := v.(type) {
				case []any:
					var list []uint32
					for _, n := range v {
						list = append(list, uint32(n.(float64)))
					}
					g.Set(key, list)
				case float64:
					if g.Set(key, uint32(v)); v < 1 {
						g.Set(key, float32(v))
					}
				}
			}
			for _, line := range c.Tensors {
				words := strings.Fields(line)
				scale, offset, n := must(strconv.ParseFloat(words[1], 64)), must(strconv.ParseFloat(words[2], 64)), 1
				var dims []uint64
				for _, w := range words[3:] {
					d := must(strconv.Atoi(w))
					dims, n = append(dims, uint64(d)), n*d
				}
				var data []byte
				for i := range n {
					x := float32(offset + float64(scale*noise(hashOf(words[0]), i)))
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
				}
				g.AddTensor(words[0], gguf.F32, dims, gguf.Bytes(data))
			}
			var b bytes.Buffer
			must(g.WriteTo(&b))
			dir := t.TempDir()
			save(t, dir, "mmproj.gguf", b.String())
			rows := made(t, filepath.Join(dir, "mmproj.gguf"), projector.Hearing, pool, func(e *model.Encoder) []projector.Part {
				x := make([]float32, c.Samples)
				for i := range x {
					x[i] = float32(noise(hashOf("sound"), i))
				}
				return e.Hear(x)
			})
			compareRows(t, rows, c.Shape, c.Numbers)
		})
	}
}

// seen returns the rows of the picture by the encoder of a checkpoint.
func (c sightCase) seen(t *testing.T, dir string, pool *kernel.Pool) (all []float32) {
	t.Helper()
	return encoded(t, dir, projector.Sight, pool, func(e *model.Encoder) []projector.Part {
		p := &picture.RGB{Width: c.Size[0], Height: c.Size[1], Pix: make([]byte, 3*c.Size[0]*c.Size[1])}
		for i := range p.Pix {
			p.Pix[i] = byte(mixed(hashOf("picture"), i) >> 24)
		}
		return e.See(p)
	})
}

// encoded returns the rows of the inputs among parts by the encoder of a checkpoint.
func encoded(t *testing.T, dir string, s projector.Sense, pool *kernel.Pool, parts func(e *model.Encoder) []projector.Part) (all []float32) {
	t.Helper()
	m := must(OpenProjector(dir, Options{Type: "f32", Threads: 1}))
	defer m.Close()
	var b bytes.Buffer
	if _, err := m.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "mmproj.gguf")
	save(t, dir, filepath.Base(path), b.String())
	return made(t, path, s, pool, parts)
}

// made returns the rows of the inputs among parts by the encoder of a file.
func made(t *testing.T, path string, s projector.Sense, pool *kernel.Pool, parts func(e *model.Encoder) []projector.Part) (all []float32) {
	t.Helper()
	f := must(model.OpenFile(path))
	defer f.Close()
	budget := mem.NewBudget(1<<28, "a test")
	exact := kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}
	e, err := model.LoadEncoder(f, s, model.EncoderFile, exact, model.Options{Pack: pool.PackInto, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, part := range parts(e) {
		if part.Input == nil {
			continue
		}
		x := must(e.Begin(part.Input, pool, budget))
		for !x.Step() {
		}
		for i := range part.Input.Rows() {
			all = append(all, x.Row(i)...)
		}
		x.Close()
	}
	return all
}
