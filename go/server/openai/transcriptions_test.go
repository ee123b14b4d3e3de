package openai_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/speechtest"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// speechModel returns the model that go/transcribe tests, which says exclamation marks.
func speechModel(t *testing.T) []byte {
	t.Helper()
	file, err := speechtest.GGUF("../../transcribe/testdata/checkpoint", "f16", speechtest.Exclaims)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func wav(samples int) string { return string(speechtest.WAV(samples)) }

// form sends fields, in pairs of a name and a value, and returns the answer.
func form(t *testing.T, s *fake.Site, path string, fields ...string) (status int, answer string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		create := w.CreateFormField
		if fields[i] == "file" {
			create = func(name string) (io.Writer, error) { return w.CreateFormFile(name, "a.wav") }
		}
		part, err := create(fields[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write([]byte(fields[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(s.URL+path, w.FormDataContentType(), &b)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Sound is written down in all formats, and what is wrong with a request is said by the name of the field.
func TestTranscriptions(t *testing.T) {
	t.Parallel()
	s := fake.File(t, speechModel(t))
	const path = "/v1/audio/transcriptions"
	second := wav(16000)
	says := strings.Repeat("!", 15)
	for _, c := range []struct {
		fields []string
		status int
		want   []string
	}{
		{nil, 200, []string{`{"text":"` + says + `","usage":{"type":"duration","seconds":1}}`}},
		{[]string{"response_format", "text", "prompt", "Before."}, 200, []string{says + "\n"}},
		{[]string{"response_format", "srt"}, 200, []string{"1\n00:00:00,000 --> 00:00:01,000\n" + says + "\n\n"}},
		{[]string{"response_format", "vtt", "language", "German"}, 200, []string{"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n" + says}},
		{[]string{"response_format", "verbose_json", "temperature", "0.5", "timestamp_granularities[]", "segment"}, 200,
			[]string{`"task":"transcribe"`, `"language":"english"`, `"duration":1,`, `"temperature":0.5`, `"tokens":[`}},
		{[]string{"stream", "true"}, 200, []string{
			`data: {"type":"transcript.text.delta","delta":"` + says, `data: {"type":"transcript.text.done","text":"` + says}},
		{[]string{"stream", "true", "response_format", "srt"}, 400, []string{"stream: true, want response_format json or text"}},
		{[]string{"stream", "yes"}, 400, []string{"stream: "}},
		{[]string{"language", "fr"}, 400, []string{"language: ", "en de"}},
		{[]string{"language", "xx"}, 400, []string{"language: "}},
		{[]string{"temperature", "2"}, 400, []string{"temperature: 2, want a number from 0 to 1"}},
		{[]string{"temperature", "hot"}, 400, []string{"temperature: "}},
		{[]string{"response_format", "yaml"}, 400, []string{"response_format: "}},
		{[]string{"timestamp_granularities[]", "word", "response_format", "verbose_json"}, 200,
			[]string{`"words":[{"word":"` + says + `","start":`, `"segments":[{`}},
		{[]string{"timestamp_granularities[]", "word", "timestamp_granularities[]", "segment", "response_format", "vtt"}, 200,
			[]string{"WEBVTT\n\n00:00:00."}},
		{[]string{"timestamp_granularities[]", "word"}, 400, []string{"timestamp_granularities[]: word, want response_format verbose_json, srt or vtt with it, not json"}},
		{[]string{"timestamp_granularities[]", "letter"}, 400, []string{"timestamp_granularities[]: ", "want segment or word"}},
		{[]string{"file", second}, 400, []string{"file: given twice"}},
	} {
		status, got := form(t, s, path, append([]string{"file", second, "model", "any"}, c.fields...)...)
		if status != c.status {
			t.Errorf("%q: status %d: %s", c.fields, status, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q: got %s, want %s", c.fields, got, want)
			}
		}
	}
	for file, want := range map[string]string{"": "it is empty", "OggS": "none of WAV, MP3 and FLAC", wav(0): "without samples",
		second[:30]: "it is cut off"} {
		if status, got := form(t, s, path, "file", file); status != 400 || !strings.Contains(got, "file: ") || !strings.Contains(got, want) {
			t.Errorf("%.8q: %d %s", file, status, got)
		}
	}
	if status, got := form(t, s, "/v1/audio/translations", "file", second, "response_format", "verbose_json"); status != 200 ||
		!strings.Contains(got, `"task":"translate"`) {
		t.Errorf("a translation: %d %s", status, got)
	}
	if status, got := form(t, s, path, "model", "any"); status != 400 || !strings.Contains(got, "file: missing") {
		t.Errorf("no file: %d %s", status, got)
	}
	if status, got, _ := s.Do("POST", path, `{"file":"x"}`); status != 415 || !strings.Contains(string(got), "multipart/form-data") {
		t.Errorf("no form: %d %s", status, got)
	}
	for path, body := range map[string]string{"/v1/chat/completions": "{" + fake.Hi + "}", "/v1/completions": `{"prompt":"x"}`} {
		if status, got, _ := s.Do("POST", path, body); status != 501 || !strings.Contains(string(got), "/v1/audio/transcriptions") {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	if status, got := form(t, fake.New(t, "", nil), path, "file", second); status != 501 || !strings.Contains(got, "Whisper") {
		t.Errorf("a model of text: %d %s", status, got)
	}
}
