package transcribe_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/speechtest"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/transcribe"
)

// small returns the path of a model of random weights that hears a second of sound, converted from its checkpoint.
var small = sync.OnceValues(func() (string, error) {
	file, err := speechtest.GGUF("testdata/checkpoint", "f32", func(name string, i int, scale, offset float64) float64 {
		return offset + float64(scale*transcribe.Noise(name, i))
	})
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "whisper")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "whisper.gguf")
	return path, os.WriteFile(path, file, 0o600)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := small(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// A listener is the small model with what it is asked, and what was said first.
type listener struct {
	*transcribe.Engine
	v     *transcribe.Vocabulary
	asked []transcribe.Ask
	said  []transcribe.Said
}

func (l *listener) Say(ctx context.Context, a transcribe.Ask) (transcribe.Said, error) {
	s, err := l.Engine.Say(ctx, a)
	l.asked, l.said = append(l.asked, a), append(l.said, s)
	return s, err
}

func listen(t *testing.T, threads int) *listener {
	t.Helper()
	path, err := small()
	if err != nil {
		t.Fatal(err)
	}
	s := launch.Settings{KV: kvcache.Both(kvcache.F32), Sequences: 2}
	m, err := launch.Open(path, s, launch.DeviceSettings{Threads: threads, Memory: 1 << 30}, launch.Events{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	loop, err := engine.NewLoop(m.Engine, engine.LoopConfig{Queue: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loop.Close)
	l := &listener{}
	l.Engine, err = transcribe.NewEngine(m.Head.Config, m.Device.Budget(),
		func(r *engine.Request) (transcribe.Ticket, error) { return loop.Submit(r) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	if l.v, err = transcribe.NewVocabulary(m.Head.Tokenizer); err != nil {
		t.Fatal(err)
	}
	return l
}

// sound returns n samples of a sound, as scripts/golden_whisper.py makes it.
func sound(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		hz := 440.0
		if i%4000 >= 2000 {
			hz = 1320
		}
		x[i] = float32(0.3*math.Sin(2*math.Pi*hz*float64(i)/transcribe.Rate) + 0.05*transcribe.Noise("sound", i))
	}
	return x
}

// What the model says of a second of sound is what transformers says, with its logits.
func TestWitness(t *testing.T) {
	data, err := os.ReadFile("testdata/witness.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Prompt, Said []int32
		Logits       []float64
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{1, 2} {
		l := listen(t, threads)
		l.Hear(sound(transcribe.Rate))
		_, positions := l.Sizes()
		s, err := l.Say(t.Context(), transcribe.Ask{
			Head: want.Prompt, At: len(want.Prompt) - 1, First: true, Most: positions / 2, Rule: l.v.Rule, End: 256,
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Tokens, want.Said) {
			t.Errorf("%d threads: it says %v, want %v", threads, s.Tokens, want.Said)
		}
		far := 0.0
		for i, x := range s.First {
			far = max(far, math.Abs(float64(x)-want.Logits[i]))
		}
		if len(s.First) != len(want.Logits) || far > 5e-4 {
			t.Errorf("%d threads: %d logits, off by %g", threads, len(s.First), far)
		}
	}
}

// Sound of several windows is transcribed the same alone and beside another, and windows are told what was said before.
func TestWindows(t *testing.T) {
	l := listen(t, 2)
	samples := sound(5*transcribe.Rate/2 + 77)
	transcription := func(o transcribe.Options) *transcribe.Result {
		r, err := transcribe.Transcribe(t.Context(), l, l.v, samples, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var done []float64
	r := transcription(transcribe.Options{Language: "en", Temperatures: []float32{0}, MeanLogprob: -100, Compression: 100,
		Progress: func(d, _ float64) { done = append(done, d) }})
	if len(done) < 3 || done[len(done)-1] != 2.5 || !slices.IsSorted(done) {
		t.Errorf("progress %v", done)
	}
	if r.Language != "en" || math.Abs(r.Duration-2.5) > 0.01 || len(r.Segments) == 0 {
		t.Errorf("%+v", r)
	}
	if last := l.asked[len(l.asked)-1]; len(last.Head) <= 3 || last.At != len(last.Head)-3 {
		t.Errorf("the last window is told %v, at %d", last.Head, last.At)
	}
	// Who listens no more has what there was until then.
	gone := errors.New("gone")
	part, err := transcribe.Transcribe(t.Context(), l, l.v, samples, transcribe.Options{Language: "en", Temperatures: []float32{0}, MeanLogprob: -100,
		Compression: 100, Segment: func(transcribe.Segment) error { return gone }})
	if !errors.Is(err, gone) || part == nil || part.Tokens == 0 || part.Tokens >= r.Tokens {
		t.Errorf("%+v, %v", part, err)
	}
	for i := range r.Segments {
		if s := r.Segments[i]; s.ID != i || s.Start < float64(s.Seek)/100 || s.End <= s.Start {
			t.Errorf("segment %d: %+v", i, s)
		}
	}
	asked := len(l.asked)
	alone := transcription(transcribe.Options{Language: "en", Temperatures: []float32{0}, MeanLogprob: -100, Compression: 100, Alone: true})
	for _, a := range l.asked[asked:] {
		if len(a.Head) != 3 {
			t.Errorf("a window that is alone is told %v", a.Head)
		}
	}
	if alone.Text == "" {
		t.Error("nothing is said alone")
	}
}

// A text that is unlikely is said again at higher temperatures, and the language is the likeliest.
func TestTemperatures(t *testing.T) {
	l := listen(t, 1)
	r, err := transcribe.Transcribe(t.Context(), l, l.v, sound(transcribe.Rate), transcribe.Options{Temperatures: []float32{0, 0.5, 1}, MeanLogprob: -1e-9, Silence: 2})
	if err != nil {
		t.Fatal(err)
	}
	var tried []float32
	for _, a := range l.asked {
		tried = append(tried, a.Temperature)
	}
	if len(tried)%3 != 1 || tried[0] != 0 { // the first asks for the language
		t.Fatalf("temperatures %v", tried)
	}
	for window := range slices.Chunk(tried[1:], 3) {
		if !slices.Equal(window, []float32{0, 0.5, 1}) {
			t.Errorf("temperatures %v", tried)
		}
	}
	if r.Language != "en" && r.Language != "de" {
		t.Errorf("language %q", r.Language)
	}
	for _, s := range r.Segments {
		if s.Temperature != 1 {
			t.Errorf("segment %+v", s)
		}
	}
	r, err = transcribe.Transcribe(t.Context(), l, l.v, sound(transcribe.Rate), transcribe.Options{Silence: 1e-9, MeanLogprob: -1e-9})
	if err != nil || len(r.Segments) != 0 {
		t.Errorf("of silence: %+v, %v", r, err)
	}
	for _, n := range []int{0, 1, 159, 161} {
		if r, err := transcribe.Transcribe(t.Context(), l, l.v, make([]float32, n), transcribe.Options{}); err != nil || r.Duration > 0.011 {
			t.Errorf("%d samples: %+v, %v", n, r, err)
		}
	}
	asked := len(l.asked)
	if r, err := transcribe.Transcribe(t.Context(), l, l.v, make([]float32, 3*transcribe.Rate), transcribe.Options{}); err != nil ||
		len(r.Segments) != 0 || len(l.asked) > asked {
		t.Errorf("of no sound at all: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := transcribe.Transcribe(ctx, l, l.v, sound(transcribe.Rate), transcribe.Options{}); err == nil {
		t.Error("a cancelled transcription ends without an error")
	}
	if _, err := transcribe.Transcribe(t.Context(), l, l.v, sound(160), transcribe.Options{Language: "fr"}); err == nil || !strings.Contains(err.Error(), "en de") {
		t.Errorf("an unknown language: %v", err)
	}
}
