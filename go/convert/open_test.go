package convert_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/launch"
)

// A file of whisper.cpp is opened as a model without being converted to a file first.
func TestWhisperCppIsAModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ggml-tiny.en.bin")
	if err := os.WriteFile(path, convert.OfWhisperCpp(), 0o600); err != nil {
		t.Fatal(err)
	}
	files := new(launch.Files)
	for range 2 { // the second time it is converted already
		f, err := files.Open(path, "")
		if err != nil {
			t.Fatal(err)
		}
		if cfg, err := f.Config(); err != nil || cfg.Name != "tiny.en" || cfg.Sound.Bands != 16 {
			t.Errorf("%+v, %v", cfg, err)
		}
		f.Close()
	}
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := new(launch.Files).Open(path, ""); err == nil {
		t.Error("what is cut off opens")
	}
}
