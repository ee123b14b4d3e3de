package openai_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/speechtest"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// hearer serves a model that says known texts, and hears.
func hearer(t *testing.T, m scripted.Model) *fake.Site {
	t.Helper()
	text, err := m.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	ears, err := speechtest.Hearing(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"text.gguf": text, "ears.gguf": ears} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return fake.Demo(t, fake.Setup{File: filepath.Join(dir, "text.gguf"), Projector: filepath.Join(dir, "ears.gguf")})
}

// said is a template that shows what a message asks for beside its sound.
const said = `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}`

// Models that chat and hear are asked for what is said as their publishers ask them, for each part of a sound that is long.
func TestTranscriptionsByChat(t *testing.T) {
	t.Parallel()
	const path, translations = "/v1/audio/transcriptions", "/v1/audio/translations"
	second := wav(16000)
	asked := func(text string) string { return `"` + text + `" in (messages[-1].content | string)` }
	for name, c := range map[string]struct {
		model scripted.Model
		cases [][3]string // a path with fields, their values, and the answer
	}{
		"in words": {scripted.Model{Template: said, Scripts: []scripted.Script{
			{When: asked("into English"), Text: "Good day."},
			{When: asked("Quern"), Text: "Quern it is."},
			{Text: " Hello there."},
		}}, [][3]string{
			{path, "", `{"text":"Hello there.","usage":{"type":"duration","seconds":1}}`},
			{path, "response_format=text prompt=Quern", "Quern it is.\n"},
			{path, "response_format=verbose_json language=de", `{"task":"transcribe","language":"german","duration":1,"text":"Hello there."}`},
			{path, "stream=true", `data: {"type":"transcript.text.delta","delta":"Hello there."}`},
			{path, "response_format=srt", "response_format: srt needs the times of what is said"},
			{path, "response_format=vtt", "response_format: vtt needs the times of what is said"},
			{path, "timestamp_granularities[]=segment", "timestamp_granularities[]: this model tells no times"},
			{translations, "", "Good day."},
		}},
		"by a token": {scripted.Model{
			Template: said, Controls: []string{"[INST]", "[/INST]", "[TRANSCRIBE]"},
			Scripts: []scripted.Script{{Text: "A chat[TRANSCRIBE] What is said."}},
		}, [][3]string{
			{path, "", `{"text":"What is said.",`},
			{path, "language=en response_format=verbose_json", `"language":"english","duration":1,"text":"What is said."}`},
			{path, "prompt=x", "prompt: the model is asked by a token"},
			{translations, "", `{"text":"A chat`},
		}},
		"by a form": {scripted.Model{
			Template: said, Controls: []string{"<asr_text>"},
			Scripts: []scripted.Script{{Text: "language German<asr_text>Guten Tag."}},
		}, [][3]string{
			{path, "response_format=verbose_json", `"language":"german","duration":1,"text":"Guten Tag."}`},
			{path, "language=en response_format=verbose_json", `"language":"english","duration":1,"text":"Guten Tag."}`},
			{translations, "", "translate: the model writes down what is said, and does not translate"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hearer(t, c.model)
			for _, c := range c.cases {
				fields := []string{"file", second}
				for f := range strings.FieldsSeq(c[1]) {
					name, value, _ := strings.Cut(f, "=")
					fields = append(fields, name, value)
				}
				if _, got := form(t, s, c[0], fields...); !strings.Contains(got, c[2]) {
					t.Errorf("%s %s: %s, want %s", c[0], c[1], got, c[2])
				}
			}
		})
	}
}

// A long sound is heard in parts, each of which begins where the last one ends, and what is silent is not.
func TestTranscriptionsInParts(t *testing.T) {
	t.Parallel()
	s := hearer(t, scripted.Model{Template: said, Scripts: []scripted.Script{{Text: "Ja."}}})
	sound := []byte(wav(90 * 16000))
	const head = 44
	clear(sound[head+2*25*16000 : head+2*26*16000]) // a pause
	clear(sound[head+2*60*16000:])
	if _, got := form(t, s, "/v1/audio/transcriptions", "file", string(sound), "stream", "true"); strings.Count(got, "delta\",") != 3 ||
		!strings.Contains(got, `"transcript.text.done","text":"Ja. Ja. Ja."`) {
		t.Error(got)
	}
}
