package sound

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// A reference is what ffmpeg and scipy make of a file.
type reference struct {
	File     string
	Rate     int
	Channels int
	Frames   int
	RMS      float64 `json:"mono_rms"`
	SHA      string  `json:"mono_f32_sha256"`
	Exact    bool
	Raw      string
}

func references(t *testing.T) []reference {
	t.Helper()
	text, err := os.ReadFile(testdata.Path(t, "mmproj/sounds.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Sounds []reference }
	if err := json.Unmarshal(text, &list); err != nil || len(list.Sounds) < 10 {
		t.Fatal(len(list.Sounds), err)
	}
	return list.Sounds
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(testdata.Path(t, "mmproj/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func rms(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(max(len(x), 1)))
}

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

func TestDecode(t *testing.T) {
	for _, ref := range references(t) {
		m, err := Decode(t.Context(), read(t, ref.File), Limits{})
		if err != nil {
			t.Errorf("%s: %v", ref.File, err)
			continue
		}
		if m.Rate != ref.Rate {
			t.Errorf("%s: %d samples a second, want %d", ref.File, m.Rate, ref.Rate)
		}
		if !ref.Exact { // its codec adds some silence at both ends
			if got := rms(m.Samples) * math.Sqrt(float64(len(m.Samples))/float64(ref.Frames)); math.Abs(got/ref.RMS-1) > 0.01 {
				t.Errorf("%s: %d samples of %.5f, want %d of %.5f", ref.File, len(m.Samples), got, ref.Frames, ref.RMS)
			}
			continue
		}
		var b []byte
		for _, v := range m.Samples {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		if sum := sha256.Sum256(b); len(m.Samples) != ref.Frames || hex.EncodeToString(sum[:]) != ref.SHA {
			t.Errorf("%s: %d other samples, want %d", ref.File, len(m.Samples), ref.Frames)
		}
	}
}

func TestResample(t *testing.T) {
	for _, ref := range references(t) {
		if !ref.Exact {
			continue
		}
		m, err := Decode(t.Context(), read(t, ref.File), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got, want := m.At(16000), floats(read(t, ref.Raw))
		if len(got) != len(want) {
			t.Errorf("%s: %d samples, want %d", ref.File, len(got), len(want))
			continue
		}
		var most float64
		for i := range got {
			most = max(most, math.Abs(float64(got[i])-float64(want[i])))
		}
		if most > 1e-6 {
			t.Errorf("%s: off by %g", ref.File, most)
		}
	}
}

// wav returns a file of that format.
func wav(kind, channels, rate, bits int, body []byte) []byte {
	var b bytes.Buffer
	le := binary.LittleEndian
	b.WriteString("RIFF")
	b.Write(le.AppendUint32(nil, uint32(36+len(body))))
	b.WriteString("WAVEfmt ")
	for _, v := range []int{16, kind | channels<<16, rate, rate * channels * bits / 8, channels*bits/8 | bits<<16} {
		b.Write(le.AppendUint32(nil, uint32(v)))
	}
	b.WriteString("data")
	b.Write(le.AppendUint32(nil, uint32(len(body))))
	b.Write(body)
	return b.Bytes()
}

// Each kind of sample has its scale, and channels are mixed.
func TestWAV(t *testing.T) {
	le := binary.LittleEndian
	f64 := le.AppendUint64(le.AppendUint64(nil, math.Float64bits(0.25)), math.Float64bits(math.NaN()))
	f32 := le.AppendUint32(le.AppendUint32(nil, math.Float32bits(-0.5)), math.Float32bits(float32(math.Inf(1))))
	for name, c := range map[string]struct {
		data []byte
		want []float32
	}{
		"8 bits":  {wav(1, 1, 8000, 8, []byte{0, 128, 192}), []float32{-1, 0, 0.5}},
		"16 bits": {wav(1, 1, 8000, 16, []byte{0, 0x80, 0, 0x40}), []float32{-1, 0.5}},
		"24 bits": {wav(1, 1, 8000, 24, []byte{0, 0, 0x80, 0, 0, 0x20}), []float32{-1, 0.25}},
		"32 bits": {wav(1, 1, 8000, 32, []byte{0, 0, 0, 0x80, 0, 0, 0, 0x40}), []float32{-1, 0.5}},
		"floats":  {wav(3, 1, 8000, 32, f32), []float32{-0.5, 0}},
		"doubles": {wav(3, 1, 8000, 64, f64), []float32{0.25, 0}},
		"two":     {wav(1, 2, 8000, 8, []byte{128, 192, 64, 64, 1}), []float32{0.25, -0.5}},
		"a stream": {slices.Concat(wav(1, 1, 8000, 8, []byte{192})[:40], []byte{0xff, 0xff, 0xff, 0xff, 192, 64}),
			[]float32{0.5, -0.5}},
		"another chunk": {slices.Concat(wav(1, 1, 8000, 8, nil)[:36], []byte("LIST\x03\x00\x00\x00abc\x00data\x01\x00\x00\x00"), []byte{192}),
			[]float32{0.5}},
	} {
		m, err := Decode(t.Context(), c.data, Limits{})
		if err != nil || m.Rate != 8000 || !slices.Equal(m.Samples, c.want) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		kind error
		want string
	}{
		"nothing":        {nil, ErrFormat, "it is empty"},
		"text":           {[]byte("hello"), ErrFormat, "it is none of WAV, MP3 and FLAC"},
		"another format": {[]byte("\x00\x00\x00\x20ftypM4A "), ErrFormat, "M4A is not supported; WAV, MP3 and FLAC are"},
		"opus":           {slices.Concat([]byte("OggS"), make([]byte, 22), []byte{1, 8}, []byte("OpusHead")), ErrFormat, "Opus is not supported"},
		"no samples":     {wav(1, 1, 8000, 8, nil), ErrFormat, "a WAV without samples"},
		"no data":        {wav(1, 1, 8000, 8, nil)[:36], ErrFormat, "a damaged WAV: it is cut off"},
		"A-law":          {wav(6, 1, 8000, 8, []byte{1}), ErrFormat, "samples of 8 bits, A-law; PCM of 8"},
		"12 bits":        {wav(1, 1, 8000, 12, []byte{1}), ErrFormat, "samples of 12 bits, PCM"},
		"no rate":        {wav(1, 1, 0, 8, []byte{1}), ErrFormat, "0 samples a second; from 1000 to 192000 are taken"},
		"no channels":    {wav(1, 0, 8000, 8, []byte{1}), ErrFormat, "0 channels; from 1 to 8 are taken"},
		"long":           {wav(1, 1, 8000, 8, make([]byte, 8001)), ErrLength, "a WAV: sound too long: more than the maximum of 1s"},
		"cut FLAC":       {read(t, "media/tone-44k1-stereo.flac")[:20000], ErrFormat, "a damaged FLAC"},
		"cut MP3":        {read(t, "media/speech-16k-mono.mp3")[:10], ErrFormat, "a damaged MP3"},
	} {
		m, err := Decode(t.Context(), c.data, Limits{Length: time.Second})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; want %q", name, m != nil, err, c.want)
		}
	}
	full := errors.New("no memory")
	var held, most uint64
	l := Limits{Reserve: func(n uint64) (func(), error) {
		held += n
		most = max(most, held)
		return func() { held -= n }, nil
	}}
	if _, err := Decode(t.Context(), wav(1, 1, 8000, 8, make([]byte, 1<<18)), l); err != nil || held != 0 || most < 4<<18 {
		t.Errorf("%v, %d bytes at most, %d not given back", err, most, held)
	}
	l.Reserve = func(uint64) (func(), error) { return nil, full }
	if _, err := Decode(t.Context(), wav(1, 1, 8000, 8, make([]byte, 10)), l); !errors.Is(err, full) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Decode(ctx, wav(1, 1, 8000, 8, make([]byte, 10)), Limits{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(wav(1, 2, 8000, 16, []byte{1, 2, 3, 4}))
	f.Add(read(f, "media/speech-16k-mono.mp3")[:2000])
	f.Add(read(f, "media/tone-44k1-stereo.flac")[:4000])
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(t.Context(), data, Limits{Length: time.Second})
		if err != nil {
			return
		}
		if len(m.Samples) == 0 || len(m.Samples) > m.Rate {
			t.Errorf("%d samples, %d a second", len(m.Samples), m.Rate)
		}
		for i, v := range m.Samples {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("sample %d is %v", i, v)
			}
		}
	})
}
