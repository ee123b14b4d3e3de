package prepare

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/cmplx"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// bytesOf returns a file of the data.
func bytesOf(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(testdata.Path(t, "mmproj/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// The NumPy reference has the frames of the sound alone.
func TestLogMel(t *testing.T) {
	for _, name := range []string{"speech-16k-mono-s16", "sweep-16k-mono-f32", "tone-16k-mono-s16"} {
		x := floats(bytesOf(t, "raw/"+name+".wav.16k.f32"))
		npy := bytesOf(t, "raw/"+name+".wav.mel.npy")
		head := 10 + int(binary.LittleEndian.Uint16(npy[8:])) // format 1: a header of that length, and rows of 128 floats
		want := floats(npy[head:])
		frames := len(want) / 128
		got := LogMel(x, 128, 3000, false)
		var most float64
		for i, w := range want {
			most = max(most, math.Abs(float64(got[i])-float64(w)))
		}
		if most > 1e-6 || frames < 90 {
			t.Errorf("%s: %d frames, off by %g", name, frames, most)
		}
	}
}

// The peer's input of encoders has the same mean and length.
func TestLogMelOfPeer(t *testing.T) {
	var c struct {
		Media  []string
		Pixels []struct {
			Frames int
			Mean   float64
			L2     float64
			First  []float64
		}
	}
	for _, name := range []string{"qwen2a.speech", "qwen2a.tone", "qwen3a.speech", "qwen3a.tone"} {
		if err := json.Unmarshal(bytesOf(t, "cases/"+name+".json"), &c); err != nil {
			t.Fatal(err)
		}
		x := floats(bytesOf(t, "raw/"+c.Media[0][len("media/"):]+".16k.f32"))
		frames := c.Pixels[0].Frames
		if strings.HasPrefix(name, "qwen3a") {
			frames = len(x)/MelHop + 1 // and nothing behind
		}
		rows := LogMel(x, 128, frames, frames < 3000)
		var sum, squares float64
		for _, v := range rows {
			sum, squares = sum+float64(v), squares+float64(v)*float64(v)
		}
		mean, l2 := sum/float64(128*c.Pixels[0].Frames), math.Sqrt(squares)
		if math.Abs(mean-c.Pixels[0].Mean) > 1e-4 || math.Abs(l2/c.Pixels[0].L2-1) > 1e-4 {
			t.Errorf("%s: mean %v, length %v; want %v", name, mean, l2, c.Pixels[0])
		}
	}
}

// Frames that are asked for one by one are those of all at once.
func TestMel(t *testing.T) {
	x := make([]float32, 7*MelRate+33)
	for i := range x {
		x[i] = float32(i%191)/191 - float32(i%7)/9
	}
	const bands, frames = 16, 900
	all, m, row := LogMel(x, bands, frames, true), NewMel(x, bands, frames, true), make([]float32, bands)
	for _, i := range []int{0, 1, 249, 250, 899, 251, 701, 0} {
		if m.Frame(row, i); !slices.Equal(row, all[i*bands:][:bands]) {
			t.Errorf("frame %d: %v, want %v", i, row, all[i*bands:][:bands])
		}
	}
}

func TestTransform(t *testing.T) {
	in, work, got := make([]complex128, melFFT), make([]complex128, melFFT), make([]complex128, melFFT)
	for i := range in {
		in[i] = complex(float64(i*i%37)-18, 0)
	}
	transform(got, in, work, 1)
	for k := range got {
		var want complex128
		for i, v := range in {
			want += v * cmplx.Rect(1, -2*math.Pi*float64(k*i%melFFT)/melFFT)
		}
		if cmplx.Abs(got[k]-want) > 1e-9 {
			t.Fatalf("%d: %v, want %v", k, got[k], want)
		}
	}
}

func BenchmarkLogMel(b *testing.B) {
	x := make([]float32, 30*MelRate)
	for i := range x {
		x[i] = float32(i%191) / 191
	}
	for b.Loop() {
		LogMel(x, 80, 3000, false)
	}
}
