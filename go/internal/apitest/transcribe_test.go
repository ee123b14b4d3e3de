package apitest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/internal/speechtest"
	"github.com/quern-llm/quern/go/scripted"
)

var exclaims = sync.OnceValues(func() ([]byte, error) {
	return speechtest.GGUF("../../transcribe/testdata/checkpoint", "f16", speechtest.Exclaims)
})

// listener opens a model that hears a second at a time and says exclamation marks.
func listener(t *testing.T, options ...quern.Option) *quern.Model {
	t.Helper()
	file, err := exclaims()
	if err != nil {
		t.Fatal(err)
	}
	m, err := quern.Open(t.Context(), "speech", append(options,
		quern.WithReaderAt(bytes.NewReader(file), int64(len(file))), quern.WithKVMemory(8<<20))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// What is said comes in segments, and all together is the transcript, of a file and of samples at any rate.
func TestTranscribe(t *testing.T) {
	t.Parallel()
	m := listener(t)
	if i := m.Info(); !i.Speech || i.Architecture != "whisper" {
		t.Errorf("%+v", i)
	}
	samples := make([]float32, 3*8000)
	for i := range samples {
		samples[i] = float32(math.Sin(float64(i)))
	}
	for name, s := range map[string]quern.Speech{
		"a file":  {Audio: speechtest.WAV(3 * 16000), Language: "german"},
		"samples": {Samples: samples, Rate: 8000, Language: "de", Temperature: new(0.0)},
	} {
		var text strings.Builder
		segments := 0
		for one, err := range m.Transcribe(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			if one.Language != "de" || one.End <= one.Start || one.End > 3*time.Second || one.Logprob > 0 {
				t.Errorf("%s: %+v", name, one)
			}
			text.WriteString(one.Text)
			segments++
		}
		whole, err := m.Transcript(t.Context(), s)
		if err != nil || whole.Text != strings.TrimSpace(text.String()) || whole.Duration != 3*time.Second || len(whole.Segments) != segments ||
			whole.Language != "de" || segments < 3 || !strings.HasPrefix(whole.Text, "!!") {
			t.Errorf("%s: %+v, %v; %d segments say %q", name, whole, err, segments, &text)
		}
	}
}

// Segments have their words with times where they are wanted.
func TestSpokenWords(t *testing.T) {
	t.Parallel()
	m := listener(t)
	s := quern.Speech{Audio: speechtest.WAV(3 * 16000), Language: "de", Temperature: new(0.0), Words: true}
	whole, err := m.Transcript(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, segment := range whole.Segments {
		for _, w := range segment.Words {
			if text += w.Text; w.Start < 0 || w.End < w.Start || w.End > whole.Duration {
				t.Errorf("%+v of %v", w, whole.Duration)
			}
		}
	}
	if strings.TrimSpace(text) != whole.Text || text == "" {
		t.Errorf("words %q of %q", text, whole.Text)
	}
	says := scripted.Model{Scripts: []scripted.Script{{Text: "Hello."}}}
	file, err := says.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	deaf, err := quern.Open(t.Context(), "deaf", quern.WithReaderAt(bytes.NewReader(file), int64(len(file))))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := deaf.Transcript(t.Context(), s); !errors.Is(err, quern.ErrUnsupported) {
		t.Errorf("a model that does not hear: %v", err)
	}
}

// A model that chats and hears transcribes too, part by part.
func TestTranscribeByChat(t *testing.T) {
	t.Parallel()
	says := scripted.Model{Template: "{{ messages[-1].content }}", Controls: []string{"<asr_text>"},
		Scripts: []scripted.Script{{Text: "language German<asr_text>Guten Tag."}}}
	file, err := says.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	ears, err := speechtest.Hearing(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ears.gguf")
	if err := os.WriteFile(path, ears, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := quern.Open(t.Context(), "says", quern.WithReaderAt(bytes.NewReader(file), int64(len(file))), quern.WithProjector(path),
		quern.WithKVMemory(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.Info().Speech {
		t.Error("it does not transcribe")
	}
	r, err := m.Transcript(t.Context(), quern.Speech{Audio: speechtest.WAV(40 * 16000)})
	if err != nil || r.Text != "Guten Tag. Guten Tag." || r.Language != "de" || len(r.Segments) != 2 || r.Segments[1].End != 40*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := m.Transcript(t.Context(), quern.Speech{Audio: speechtest.WAV(16000), Translate: true}); !errors.Is(err, quern.ErrInvalid) ||
		!strings.Contains(err.Error(), "Speech.Translate: ") {
		t.Errorf("a translation: %v", err)
	}
}

// The caller may leave, panic, cancel and close the model between two segments, and nothing is left.
func TestTranscribeEnds(t *testing.T) {
	t.Parallel()
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := d.Status().Used
	m := listener(t, quern.WithDevice(d))
	open := d.Status().Used
	speech := quern.Speech{Audio: speechtest.WAV(20 * 16000), Language: "en"}
	for range m.Transcribe(t.Context(), speech) {
		break
	}
	func() {
		defer func() {
			if v := recover(); v != "mine" {
				t.Errorf("recovered %v", v)
			}
		}()
		for range m.Transcribe(t.Context(), speech) {
			panic("mine")
		}
	}()
	ends := func(ctx context.Context, do func()) (n int, err error) {
		for _, err := range m.Transcribe(ctx, speech) {
			if err != nil {
				return n, err
			}
			if n++; n == 2 {
				do()
			}
		}
		return n, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	if n, err := ends(ctx, cancel); n != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d segments, %v of a transcription that was cancelled", n, err)
	}
	if used := d.Status().Used; used != open {
		t.Errorf("%d bytes, before %d", used, open)
	}
	if n, err := ends(t.Context(), func() { m.Close() }); n != 2 || !errors.Is(err, quern.ErrClosed) {
		t.Errorf("%d segments, %v of a model that was closed", n, err)
	}
	if used := d.Status().Used; used != before {
		t.Errorf("%d bytes are left, before %d", used, before)
	}
}

// What cannot be transcribed is one line of a kind.
func TestTranscribeErrors(t *testing.T) {
	t.Parallel()
	m, text := listener(t), caller(t)
	sound := speechtest.WAV(1600)
	var none context.Context
	for name, c := range map[string]struct {
		m    *quern.Model
		s    quern.Speech
		kind error
	}{
		"a model of texts": {text, quern.Speech{Audio: sound}, quern.ErrUnsupported},
		"nothing":          {m, quern.Speech{}, quern.ErrInvalid},
		"both":             {m, quern.Speech{Audio: sound, Samples: []float32{0}}, quern.ErrInvalid},
		"a rate of a file": {m, quern.Speech{Audio: sound, Rate: 8000}, quern.ErrInvalid},
		"a low rate":       {m, quern.Speech{Samples: []float32{0}, Rate: 1}, quern.ErrInvalid},
		"not a number":     {m, quern.Speech{Samples: []float32{float32(math.NaN())}}, quern.ErrInvalid},
		"no sound":         {m, quern.Speech{Audio: []byte("hello")}, quern.ErrInvalid},
		"a cut file":       {m, quern.Speech{Audio: sound[:30]}, quern.ErrInvalid},
		"no language":      {m, quern.Speech{Audio: sound, Language: "Klingon"}, quern.ErrInvalid},
		"another language": {m, quern.Speech{Audio: sound, Language: "fr"}, quern.ErrInvalid},
		"a temperature":    {m, quern.Speech{Audio: sound, Temperature: new(2.0)}, quern.ErrInvalid},
	} {
		if r, err := c.m.Transcript(t.Context(), c.s); !errors.Is(err, c.kind) || strings.Contains(err.Error(), "\n") || len(r.Segments) > 0 {
			t.Errorf("%s: %+v, %v; want %v", name, r, err, c.kind)
		}
	}
	if _, err := m.Transcript(none, quern.Speech{Audio: sound}); !errors.Is(err, quern.ErrInvalid) {
		t.Errorf("without a context: %v", err)
	}
	if _, err := m.Complete(t.Context(), ask("hello")); !errors.Is(err, quern.ErrUnsupported) || strings.Contains(err.Error(), "/v1") {
		t.Errorf("a chat: %v", err)
	}
	if _, err := m.Embed(t.Context(), "hello"); !errors.Is(err, quern.ErrUnsupported) {
		t.Errorf("a vector: %v", err)
	}
}
