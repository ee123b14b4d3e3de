package model

import (
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
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/projector"
)

// An eye is what an encoder makes of a picture or of a sound, in torch. scripts/golden_eyes.py writes it, and says what its fields
// are.
type eye struct {
	Name          string
	Keys, Tensors []string
	Size, Shape   [2]int
	Samples       int // of the sound; 0: it is a picture
	Numbers       []float64
}

// TestEyes compares the rows of small encoders with those of their publishers' mathematics.
func TestEyes(t *testing.T) {
	pool, threads, budget := testPool(t, 1), testPool(t, 3), mem.NewBudget(1<<28, "a test")
	for _, c := range eyes(t) {
		t.Run(c.Name, func(t *testing.T) {
			e := encoder(t, c.write(t), c.sense(), EncoderFile, kvEncoder, pool, budget)
			var flat []float32
			made := rows(t, e, c.parts(e), pool, budget)
			for _, row := range made {
				flat = append(flat, row...)
			}
			if !slices.EqualFunc(made, rows(t, e, c.parts(e), threads, budget), slices.Equal) {
				t.Error("three threads make other rows")
			}
			if len(flat) != c.Shape[0]*c.Shape[1] {
				t.Fatalf("%d numbers, want %v", len(flat), c.Shape)
			}
			worst := 0.0
			for i, want := range c.Numbers {
				worst = max(worst, math.Abs(float64(flat[i*7919%len(flat)])-want))
			}
			if !(worst < 2e-5) {
				t.Errorf("%.2g off", worst)
			}
		})
	}
}

func (c eye) sense() projector.Sense {
	if c.Samples > 0 {
		return projector.Hearing
	}
	return projector.Sight
}

// parts returns what its encoder is given.
func (c eye) parts(e *Encoder) []projector.Part {
	if c.Samples > 0 {
		return e.Hear(noise("sound", c.Samples))
	}
	return e.See(c.picture())
}

// picture returns what it sees.
func (c eye) picture() *picture.RGB {
	p := &picture.RGB{Width: c.Size[0], Height: c.Size[1], Pix: make([]byte, 3*c.Size[0]*c.Size[1])}
	for i := range p.Pix {
		p.Pix[i] = byte(mixedNoise("picture", i) >> 24)
	}
	return p
}

// The room for the largest picture is that of one with as many tiles as there may be.
func TestRoomOfTiles(t *testing.T) {
	pool, budget := testPool(t, 1), mem.NewBudget(1<<28, "a test")
	for name, size := range map[string][2]int{"granite4_vision": {64, 32}, "deepseekocr": {9 * 40, 40}} {
		all := eyes(t)
		c := all[slices.IndexFunc(all, func(c eye) bool { return c.Name == name })]
		e := encoder(t, c.write(t), projector.Sight, EncoderFile, kvEncoder, pool, budget)
		held, most := budget.Used(), uint64(0)
		for _, part := range e.See(&picture.RGB{Width: size[0], Height: size[1], Pix: make([]byte, 3*size[0]*size[1])}) {
			if part.Input == nil {
				continue
			}
			x, err := e.Begin(part.Input, pool, budget)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, budget.Used()-held)
			x.Close()
		}
		if room := e.Room(16, 1); room < most-most/10 || room > most {
			t.Errorf("%s: a room of %d bytes, an encoding has %d", name, room, most)
		}
	}
}

// Layers of encoders may have more operations than a plan has: those of Granite Vision with the heads of its models.
func TestManyHeads(t *testing.T) {
	all := eyes(t)
	c := all[slices.IndexFunc(all, func(c eye) bool { return c.Name == "granite4_vision" })]
	w := gguf.NewWriter()
	for _, line := range c.Keys {
		words := strings.Fields(line)
		value := keyValue(t, words[1], words[2:])
		switch words[0] {
		case "clip.vision.embedding_length":
			value = uint32(18 * 64)
		case "clip.vision.attention.head_count":
			value = uint32(18)
		}
		w.Set(words[0], value)
	}
	for _, line := range c.Tensors {
		words := strings.Fields(line)
		var dims []uint64
		size := 4
		for _, word := range words[1 : len(words)-2] {
			d := number(t, word)
			if d == 128 {
				d = 18 * 64
			}
			dims, size = append(dims, uint64(d)), size*d
		}
		for il := range 2 {
			name := strings.Replace(words[0], "#", strconv.Itoa(il), 1)
			w.AddTensor(name, gguf.F32, dims, gguf.Bytes(make([]byte, size)))
			if name == words[0] {
				break
			}
		}
	}
	outline, err := w.Outline()
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := SurveyEncoder(Outline("wide", outline), projector.Sight, EncoderFile, kvEncoder)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.find(Packed)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, ops := range f.program.Layers {
		most = max(most, len(ops))
	}
	if most <= 2*mostOps {
		t.Errorf("%d operations at most in a layer: no more than a plan has", most)
	}
}

func eyes(t testing.TB) (all []eye) {
	t.Helper()
	data, err := os.ReadFile("testdata/eyes.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	return all
}

// write writes the file, and returns its path.
func (c eye) write(t testing.TB) string {
	t.Helper()
	w := gguf.NewWriter()
	layers := 0
	for _, line := range c.Keys {
		words := strings.Fields(line)
		value := keyValue(t, words[1], words[2:])
		if w.Set(words[0], value); slices.Contains([]string{"clip.vision.block_count", "clip.audio.block_count"}, words[0]) {
			layers = int(value.(uint32))
		}
	}
	for _, line := range c.Tensors {
		words := strings.Fields(line)
		n := len(words)
		var dims []uint64
		count := 1
		for _, word := range words[1 : n-2] {
			d := number(t, word)
			dims, count = append(dims, uint64(d)), count*d
		}
		scale, offset := float(t, words[n-2]), float(t, words[n-1])
		for il := range layers {
			name := strings.Replace(words[0], "#", strconv.Itoa(il), 1)
			data := make([]byte, 0, 4*count)
			for i := range count {
				noise := float64(mixedNoise(name, i)>>8)/(1<<23) - 1
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(offset+scale*noise)))
			}
			w.AddTensor(name, gguf.F32, dims, gguf.Bytes(data))
			if name == words[0] {
				break
			}
		}
	}
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := w.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	return path
}

func float(t testing.TB, s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// mixedNoise returns the bits of number i of the noise of a name.
func mixedNoise(name string, i int) uint32 {
	hash := uint32(2166136261)
	for _, b := range []byte(name) {
		hash = (hash ^ uint32(b)) * 16777619
	}
	x := uint32(i)*0x9E3779B9 + hash
	x = (x ^ x>>16) * 0x85EBCA6B
	x = (x ^ x>>13) * 0xC2B2AE35
	return x ^ x>>16
}
