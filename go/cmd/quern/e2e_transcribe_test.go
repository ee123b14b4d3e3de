package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/speechtest"
	"github.com/quern-llm/quern/go/scripted"
)

// A model that chats transcribes with its projector, in the formats that need no times.
func TestTranscribeByChat(t *testing.T) {
	says := scripted.Model{Template: "{{ messages[0].content }}", Scripts: []scripted.Script{{Text: "Hello there."}}}
	text, err := says.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	ears, err := speechtest.Hearing(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"says.gguf": text, "mmproj-says.gguf": ears, "a.wav": speechtest.WAV(16000)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	model, sound := filepath.Join(dir, "says.gguf"), filepath.Join(dir, "a.wav")
	if r := quern(t, "transcribe", "-m", model, sound); r.code != 0 || r.stdout != "Hello there.\n" {
		t.Errorf("%+v", r)
	}
	if r := quern(t, "transcribe", "-m", model, "--format", "srt", sound); r.code == 0 || !strings.Contains(r.stderr, "srt needs the times") {
		t.Errorf("%+v", r)
	}
	if r := quern(t, "transcribe", "-m", model, "--no-mmproj", sound); r.code == 0 || !strings.Contains(r.stderr, "does not transcribe") {
		t.Errorf("%+v", r)
	}
}

// A model that does not transcribe, a file that is none of sound, and unknown languages are told in one line. What is said is
// tested where it is heard, in go/transcribe.
func TestTranscribeRefuses(t *testing.T) {
	sound := filepath.Join(t.TempDir(), "a.wav")
	if err := os.WriteFile(sound, []byte("RIFF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"transcribe"}, "wants a file of sound"},
		{[]string{"transcribe", sound}, "-m"},
		{[]string{"transcribe", "-m", "demo", sound}, "does not transcribe"},
		{[]string{"transcribe", "-m", "demo", "--language", "xx", sound}, "--language"},
		{[]string{"transcribe", "-m", "demo", "--format", "yaml", sound}, "srt"},
		{[]string{"transcribe", "-m", "demo", "--words", sound}, "--words: text has no times"},
		{[]string{"transcribe", "-m", "demo", "--words", "--format", "srt", sound}, "does not transcribe"},
		{[]string{"bench", "-m", "demo", "--sound", sound}, "none of WAV"},
		{[]string{"bench", "--sound", sound}, "-m"},
		{[]string{"bench", "-m", "demo", "--sound", sound, "--curve"}, "--sound"},
	} {
		r := quern(t, c.args...)
		if r.code == 0 || !strings.Contains(r.stderr, c.want) || strings.Count(r.stderr, "\n") > 1 {
			t.Errorf("%q: %d %q, want %q", c.args, r.code, r.stderr, c.want)
		}
	}
}
