package repl

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/reading"
)

// eyes opens a projector.
func eyes(t *testing.T) *reading.Projector {
	t.Helper()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	text, err := model.OpenFile(testdata.Path(t, "mmproj/text/qwen2vl-4k.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := model.OpenFile(testdata.Path(t, "mmproj/mm/qwen2vl-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(text, engine.Config{Device: d, Ctx: 256, Sequences: 1, Media: &engine.Media{Projector: f}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	p, err := reading.NewProjector(e, f, d.Budget(), reading.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Paths in a message, as terminals write those of files that are dropped, are pictures in their place.
func TestPathsInMessages(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{"a.png": "dot-1x1.png", "b c.png": "dot-1x1.png", "it's.gif": "two-frames-160x120.gif", "s.wav": "tone-8k-mono-u8.wav"} {
		data, err := os.ReadFile(testdata.Path(t, "mmproj/media/"+from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "t.txt"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Session{Config: Config{Projector: eyes(t), Notes: io.Discard}}
	t.Chdir(dir) // not before eyes: test data may be found from the folder of the package
	shown := func(c chat.Content) string {
		if c.Parts == nil {
			return c.Text
		}
		var all []string
		for _, p := range c.Parts {
			if p.Medium != nil {
				p.Text = "<" + p.Medium.Kind.String() + ">"
			}
			all = append(all, p.Text)
		}
		return strings.Join(all, "|")
	}
	for message, want := range map[string]string{
		"hello":                               "hello",
		"what is " + dir + "/a.png":           "what is|<picture>",
		dir + `/b\ c.png what is this`:        "<picture>|what is this",
		`'` + dir + `/b c.png' and ./a.png ?`: "<picture>|and|<picture>|?",
		`"` + dir + `/it's.gif"`:              "<picture>",
		"file://" + dir + "/b%20c.png x":      "<picture>|x",
		"a.png is a name":                     "a.png is a name",
		"see " + dir + "/none.png":            "see " + dir + "/none.png",
		"see " + dir + "/t.txt it's fine":     "see " + dir + "/t.txt it's fine",
		"two\nlines  with blanks":             "two\nlines  with blanks",
	} {
		c, err := s.content(message)
		if err != nil || shown(c) != want {
			t.Errorf("%s: %q, %v, want %q", message, shown(c), err, want)
		}
	}
	if _, err := s.content(dir + "/s.wav"); err == nil || !strings.Contains(err.Error(), "takes no sound") {
		t.Errorf("a sound: %v", err)
	}
	if !s.isFile(dir+"/a.png x") || s.isFile("/help") || s.isFile("/image a.png") {
		t.Error("a path is a command, or a command a path")
	}
	if err := s.addMedium("a.png"); err != nil {
		t.Error(err)
	}
	for args, want := range map[string]string{"": "want the name", "none.png": "no such file", "t.txt": "neither a picture nor a sound", "s.wav": "takes no sound"} {
		if err := s.addMedium(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("/image %s: %v", args, err)
		}
	}
	if c, _ := s.content("look"); shown(c) != "<picture>|look" || s.Media != nil {
		t.Errorf("%s", shown(c))
	}
	for args, want := range map[string]string{"": "want the name", "none.txt": "no such file", "a.png": "is not read; want PDF, DOCX, HTML and text"} {
		if err := s.addDocument(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("/document %s: %v", args, err)
		}
	}
	if err := s.addDocument("t.txt"); err != nil {
		t.Error(err)
	}
	if c, _ := s.content("what?"); !strings.HasPrefix(shown(c), "<document name=\"t.txt\">\n") || !strings.HasSuffix(shown(c), "\n</document>\n|what?") {
		t.Errorf("%q", shown(c))
	}
	for args, want := range map[string]string{"": "want the name", "none.gif": "no such file", "a.png": "is a picture; want a GIF"} {
		if err := s.addVideo(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("/video %s: %v", args, err)
		}
	}
	frames := filepath.Join(dir, "frames")
	if err := os.Mkdir(frames, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "a.png"), filepath.Join(frames, "1.png")); err != nil {
		t.Fatal(err)
	}
	if err := s.addVideo(frames); err != nil {
		t.Error(err)
	}
	if c, _ := s.content("look"); shown(c) != "<video>|look" {
		t.Errorf("%s", shown(c))
	}
	blind := &Session{Config: Config{Notes: io.Discard}}
	if c, _ := blind.content(dir + "/a.png"); c.Parts != nil {
		t.Error("a model without eyes is shown a picture")
	}
}
