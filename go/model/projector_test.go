package model

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/projector"
)

// A sight is what another implementation makes of the pictures or sounds of a prompt.
type sight struct {
	MMProj    string
	TextModel string `json:"text_model"`
	Prompt    string
	Media     []string
	Rows      [2]int
	RMS       float64
	RowsFirst [][]float64 `json:"rows_first"`
	RowsLast  [][]float64 `json:"rows_last"`
	RowL2     []float64   `json:"row_l2"`
	BothWays  bool        `json:"both_ways"`
	Chunks    []struct {
		IDs             []int32
		Media           *int
		Rows, Positions int
		Places          [][3]int32
	}
	PeerWrong any `json:"peer_wrong"`
	Numpy     *struct {
		Rows      [2]int
		RowsFirst [][]float64 `json:"rows_first"`
		RowsLast  [][]float64 `json:"rows_last"`
	}
}

// kvEncoder is how encoders keep keys and values in tests: as exact as it gets.
var kvEncoder = kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}

// encoder loads the encoder of a file for as long as the test.
func encoder(t testing.TB, path string, s projector.Sense, typ EncoderType, kv kernel.KVTypes, pool *kernel.Pool, budget *mem.Budget) *Encoder {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	e, err := LoadEncoder(f, s, typ, kv, Options{Pack: pool.PackInto, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func testPool(t testing.TB, threads int) *kernel.Pool {
	t.Helper()
	pool, err := kernel.NewPool(threads, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// pillows decodes a picture as Pillow does: JPEG is rounded otherwise here, by at most 3.
func pillows(t testing.TB, dir, name string) *picture.RGB {
	t.Helper()
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	raw := filepath.Join(dir, "raw", filepath.Base(name))
	data := read(filepath.Join(dir, name))
	if _, err := os.Stat(raw + ".png"); err == nil {
		data = read(raw + ".png")
	}
	p, err := picture.Decode(context.Background(), data, picture.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if pix, err := os.ReadFile(raw + ".rgb"); err == nil && len(pix) == len(p.Pix) {
		p.Pix = pix
	}
	return p
}

// samplesOf returns those of a sound at 16,000 a second.
func samplesOf(t testing.TB, dir, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "raw", filepath.Base(name)+".16k.f32"))
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

// rows encodes the inputs among parts, and returns copies of the rows.
func rows(t testing.TB, e *Encoder, parts []projector.Part, pool *kernel.Pool, budget *mem.Budget) (all [][]float32) {
	t.Helper()
	for _, part := range parts {
		if part.Input == nil {
			continue
		}
		x, err := e.Begin(part.Input, pool, budget)
		if err != nil {
			t.Fatal(err)
		}
		for !x.Step() {
		}
		for i := range part.Input.Rows() {
			all = append(all, slices.Clone(x.Row(i)))
		}
		x.Close()
	}
	return all
}

// seeing is the kinds that read pictures, by the names of their small files.
var seeing = []string{
	"gemma3", "gemma3-outlier", "gemma4v", "gemma4v-outlier", "gemma4uv", "qwen3vl", "qwen3vl-outlier", "qwen35v", "qwen25vl", "qwen2vl", "pixtral",
	"idefics3", "internvl", "llava", "lfm2", "llama4", "kimivl", "glm4v",
}

// hearing is the kinds that read sounds, or both.
var hearing = []string{"gemma4ua", "gemma4u", "qwen2a", "ultravox", "voxtral", "qwen3a", "qwen35o"}

// TestProjectors compares the rows of small encoders with those of other implementations: libmtmd, which rounds patches and
// inputs of convolutions to F16, and where there is one a reference in NumPy, which does not.
func TestProjectors(t *testing.T) {
	dir := testdata.Path(t, "mmproj")
	for _, toy := range slices.Concat(seeing, hearing) {
		t.Run(toy, func(t *testing.T) {
			t.Parallel()
			paths, err := filepath.Glob(filepath.Join(dir, "cases", toy+".*.json"))
			if err != nil || len(paths) == 0 {
				t.Fatal("no cases", err)
			}
			pool, budget := testPool(t, 1), mem.NewBudget(1<<30, "a test")
			encoders := map[projector.Sense]*Encoder{}
			of := func(w *sight, s projector.Sense) *Encoder {
				if encoders[s] == nil {
					encoders[s] = encoder(t, filepath.Join(dir, w.MMProj), s, EncoderFile, kvEncoder, pool, budget)
				}
				return encoders[s]
			}
			for _, path := range paths {
				w := sightOf(t, path)
				var got [][]float32
				var parts [][]projector.Part
				for _, name := range w.Media {
					if filepath.Ext(name) == ".wav" {
						e := of(w, projector.Hearing)
						parts = append(parts, e.Hear(samplesOf(t, dir, name)))
						got = append(got, rows(t, e, parts[len(parts)-1], pool, budget)...)
						continue
					}
					e := of(w, projector.Sight)
					parts = append(parts, e.See(pillows(t, dir, name)))
					if other := libmtmds[toy]; other != nil {
						other(t, e, parts[len(parts)-1])
					}
					got = append(got, rows(t, e, parts[len(parts)-1], pool, budget)...)
					if e.BothWays() != w.BothWays {
						t.Errorf("%s: both ways: %v", filepath.Base(path), e.BothWays())
					}
				}
				if w.PeerWrong == nil { // else it has another number of rows
					w.comparePrompt(t, filepath.Base(path), vocabulary(t, filepath.Join(dir, w.TextModel)), parts)
				}
				if toy == "kimivl" { // whose numbers are those of another rotation: go/convert compares these
					continue
				}
				w.compare(t, filepath.Base(path), got)
			}
			weights := uint64(0)
			for _, e := range encoders {
				weights += e.WeightBytes()
			}
			if used := budget.Used(); used > weights {
				t.Errorf("%d bytes are used after all encodings, the weights have %d", used, weights)
			}
		})
	}
}

// A sound that is longer than a window of Whisper's encoder is heard in several, and its last frames count.
func TestLongSound(t *testing.T) {
	pool, budget := testPool(t, 1), mem.NewBudget(1<<30, "a test")
	e := encoder(t, testdata.Path(t, "mmproj/mm/qwen2a-f16.gguf"), projector.Hearing, EncoderFile, kvEncoder, pool, budget)
	x := make([]float32, 31*16000)
	for i := range x {
		x[i] = float32(math.Sin(float64(i%4000) * float64(i%7)))
	}
	heard := func() []projector.Part { return e.Hear(x) }
	for _, n := range []int{1, 16000, 30 * 16000, 30*16000 + 1, 31 * 16000} {
		inputs := 0
		for _, part := range e.Hear(x[:n]) {
			if part.Input != nil {
				inputs++
			}
		}
		if want := (n-1)/(30*16000) + 1; inputs != want {
			t.Errorf("%d samples: %d windows, want %d", n, inputs, want)
		}
	}
	before := rows(t, e, heard(), pool, budget)
	x[len(x)-1] += 0.25
	after := rows(t, e, heard(), pool, budget)
	if len(before) != 1500 || !slices.Equal(before[0], after[0]) || slices.Equal(before[750], after[750]) {
		t.Errorf("%d rows; the last sample changes the first window: %v, the second: %v", len(before),
			!slices.Equal(before[0], after[0]), !slices.Equal(before[750], after[750]))
	}
}

func sightOf(t testing.TB, path string) *sight {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := new(sight)
	if err := json.Unmarshal(text, w); err != nil {
		t.Fatal(path, err)
	}
	return w
}

// compare compares rows with those of the witness.
func (w *sight) compare(t *testing.T, name string, got [][]float32) {
	t.Helper()
	if w.PeerWrong != nil {
		w.Rows = w.Numpy.Rows
	}
	if len(got) != w.Rows[0] || len(got[0]) != w.Rows[1] {
		t.Errorf("%s: %d rows of %d, want %v", name, len(got), len(got[0]), w.Rows)
		return
	}
	near := func(what string, first, last [][]float64, most float64) {
		worst := 0.0
		for i, want := range slices.Concat(first, last) {
			row := got[i%len(got)]
			if i >= len(first) {
				row = got[len(got)-len(last)+i-len(first)]
			}
			for j, v := range want {
				worst = max(worst, math.Abs(float64(row[j])-v))
			}
		}
		if !(worst <= most*w.RMS) {
			t.Errorf("%s: %s: %.2g off, at a mean square of %.2g", name, what, worst, w.RMS)
		} else {
			t.Logf("%s: %s: %.2g off", name, what, worst)
		}
	}
	if w.Numpy != nil {
		near("NumPy", w.Numpy.RowsFirst, w.Numpy.RowsLast, 2e-5)
	}
	if w.PeerWrong == nil {
		near("libmtmd", w.RowsFirst, w.RowsLast, 3.5e-3) // of patches in F16, and of GELU with tanh where publishers have erf
		for i, want := range w.RowL2 {
			sum := 0.0
			for _, v := range got[i] {
				sum += float64(v) * float64(v)
			}
			if l2 := math.Sqrt(sum); math.Abs(l2-want) > 3e-3*max(want, w.RMS) {
				t.Errorf("%s: row %d has a length of %v, want %v", name, i, l2, want)
			}
		}
	}
}

// Two frames are a row as if the first were seen through one matrix of patches, and the second through the other; the same
// frame twice is a picture.
func TestFilms(t *testing.T) {
	t.Parallel()
	dir := testdata.Path(t, "mmproj")
	pool, budget := testPool(t, 1), mem.NewBudget(1<<30, "a test")
	a := pillows(t, dir, "media/small-224x160.png")
	b := &picture.RGB{Width: a.Width, Height: a.Height, Pix: slices.Clone(a.Pix)}
	slices.Reverse(b.Pix)
	for name, texts := range map[string][]string{
		"qwen3vl":  {"<0.2 seconds>", "<|vision_start|>", "<|vision_end|>", "<1.0 seconds>", "<|vision_start|>", "<|vision_end|>"},
		"qwen25vl": {"<|vision_start|>", "<|vision_end|>"},
		"qwen2vl":  {"<|vision_start|>", "<|vision_end|>"},
		"glm4v":    {"00:00 ", "<|begin_of_image|>", "<|end_of_image|>", " 00:01 ", "<|begin_of_image|>", "<|end_of_image|>"},
	} {
		d := read(t, filepath.Join(dir, "mm", name+"-f16.gguf"))
		if d.has("v.patch_embd.bias") { // which is added to the first product, and rounds
			clear(d.tensor("v.patch_embd.bias").Data)
		}
		e := encoder(t, d.write(t, "mmproj.gguf"), projector.Sight, EncoderFile, kvEncoder, pool, budget)
		first, second := d.tensor("v.patch_embd.weight"), d.tensor("v.patch_embd.weight.1")
		first.Data, second.Data = second.Data, first.Data
		turned := encoder(t, d.write(t, "turned.gguf"), projector.Sight, EncoderFile, kvEncoder, pool, budget)
		watch := func(e *Encoder, frames ...*picture.RGB) [][]float32 {
			return rows(t, e, e.Watch(projector.Film{Frames: frames, Rate: 2}), pool, budget)
		}
		got := watch(e, a, b)
		if !slices.EqualFunc(got, watch(turned, b, a), slices.Equal) {
			t.Errorf("%s: through each other's matrix two frames are another row", name)
		}
		if slices.EqualFunc(got, watch(e, b, a), slices.Equal) || slices.EqualFunc(got, watch(e, a), slices.Equal) {
			t.Errorf("%s: the second frame counts for nothing", name)
		}
		still := rows(t, e, e.See(a), pool, budget)
		if three := watch(e, a, a, a); !slices.EqualFunc(three, slices.Concat(still, still), slices.Equal) {
			t.Errorf("%s: where nothing moves a film is no picture", name)
		}
		var between []string
		for _, p := range e.Watch(projector.Film{Frames: []*picture.RGB{a, b, a}, Rate: 2}) {
			if p.Input == nil {
				between = append(between, p.Text)
			}
		}
		if !slices.Equal(between, texts) {
			t.Errorf("%s: %q, want %q", name, between, texts)
		}
	}
}

// TestClipped limits one product of a layer to nothing, or its input, and compares the rows with those of files that lack what
// it would add. Wide limits change nothing.
func TestClipped(t *testing.T) {
	t.Parallel()
	dir := testdata.Path(t, "mmproj")
	pool, budget := testPool(t, 1), mem.NewBudget(1<<30, "a test")
	pic := pillows(t, dir, "media/shapes-640x488.png")
	made := func(change func(d *draft)) [][]float32 {
		d := read(t, filepath.Join(dir, "mm/gemma4v-f32.gguf"))
		change(d)
		e := encoder(t, d.write(t, "mmproj.gguf"), projector.Sight, EncoderFile, kvEncoder, pool, budget)
		return rows(t, e, e.See(pic), pool, budget)
	}
	number := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
	limit := func(d *draft, end string, most float32) {
		for il := range 2 {
			for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"} {
				for _, of := range []string{"input", "output"} {
					bound := float32(1e6)
					if il == 1 && name+"."+of == end {
						bound = most
					}
					stem := fmt.Sprintf("v.blk.%d.%s.%s", il, name, of)
					d.add(stem+"_min", gguf.F32, number(-bound), 1)
					d.add(stem+"_max", gguf.F32, number(bound), 1)
				}
			}
		}
	}
	zero := func(name string) func(d *draft) {
		return func(d *draft) { clear(d.tensor(name).Data) }
	}
	plain := made(func(*draft) {})
	noFF, noAttention := made(zero("v.blk.1.ffn_post_norm.weight")), made(zero("v.blk.1.attn_post_norm.weight"))
	noQueries := made(zero("v.blk.1.attn_q.weight"))
	for end, want := range map[string][][]float32{
		"":               plain,
		"ffn_gate.input": noFF, "ffn_gate.output": noFF, "ffn_up.input": noFF, "ffn_up.output": noFF, "ffn_down.input": noFF,
		"ffn_down.output": noFF,
		"attn_v.input":    noAttention, "attn_v.output": noAttention, "attn_out.input": noAttention, "attn_out.output": noAttention,
		"attn_q.input": noQueries, "attn_q.output": noQueries, "attn_k.input": noQueries, "attn_k.output": noQueries,
	} {
		got, worst := made(func(d *draft) { limit(d, end, 1e-30) }), 0.0
		for i := range want {
			for j := range want[i] {
				worst = max(worst, math.Abs(float64(got[i][j]-want[i][j])))
			}
		}
		if !(worst < 1e-5) {
			t.Errorf("%q limited: %.2g off", end, worst)
		}
	}
	for _, other := range [][][]float32{noFF, noAttention, noQueries} {
		if slices.Equal(other[0], plain[0]) {
			t.Error("what is left out makes no difference")
		}
	}
}
