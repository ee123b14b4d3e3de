package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A fixture is the models of a soak, which the program makes itself: its demo, the same quantized anew and packed, one for
// vectors, and an adapter.
type fixture struct{ dir string }

func newFixture(program, dir string) (*fixture, error) {
	f := &fixture{dir}
	if _, err := os.Stat(f.path("made")); err == nil {
		return f, nil
	}
	for _, d := range []string{f.path("models"), f.path("adapters")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	examples := strings.Repeat(strings.Join(words, " ")+".\n", 20)
	presets := "version = 1\n\n[vectors]\nmodel = " + f.path("demo.gguf") + "\npooling = mean\n"
	for name, content := range map[string]string{"examples.txt": examples, "presets.ini": presets} {
		if err := os.WriteFile(f.path(name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	for _, made := range []struct {
		path string
		args []string
	}{
		{"demo.gguf", []string{"export-demo", f.path("demo.gguf")}},
		{"models/small.gguf", []string{"quantize", "--allow-requantize", f.path("demo.gguf"), f.path("models/small.gguf"), "Q8_0"}},
		{"models/packed.gguf", []string{"pack", f.path("demo.gguf"), f.path("models/packed.gguf")}},
		{"adapters/poet.gguf", []string{"finetune", "-m", "demo", "--data", f.path("examples.txt"), "-o", f.path("adapters/poet.gguf"), "--steps", "2", "-b", "64"}},
	} {
		os.Remove(f.path(made.path)) // of a part that was cut short
		if out, err := exec.Command(program, made.args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(made.args, " "), err, out)
		}
	}
	b, err := os.ReadFile(f.path("adapters/poet.gguf"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(f.path("adapters/"+loose+".gguf"), b, 0o644); err != nil {
		return nil, err
	}
	return f, os.WriteFile(f.path("made"), nil, 0o644)
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }
