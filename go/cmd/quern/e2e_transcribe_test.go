package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
