package hub

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/persona"
)

// stored returns a cache with a model under a name.
func stored(t *testing.T, name string) *Hub {
	t.Helper()
	h, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Name: name, Files: []ModelFile{{Name: "a.gguf", SHA256: strings.Repeat("a", 64)}}}
	m.Persona = &persona.Persona{System: "base", Parameters: persona.Parameters{"top_k": int64(3)}}
	if err := os.MkdirAll(h.blobs(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.blob(m.Files[0].SHA256), []byte("GGUF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.write(m); err != nil {
		t.Fatal(err)
	}
	return h
}

// A persona is stored, made from another, copied and removed; its model stays as long as it.
func TestPersonas(t *testing.T) {
	h := stored(t, "ollama.com/tiny:latest")
	create := func(p persona.Persona) error {
		_, err := h.Create(t.Context(), &p)
		return err
	}
	if err := create(persona.Persona{Name: "pirate:latest", From: "tiny", System: "arr"}); err != nil {
		t.Fatal(err)
	}
	p, err := h.Persona("pirate")
	if err != nil || p.From != "ollama.com/tiny:latest" || p.System != "arr" || p.Parameters["top_k"] != int64(3) {
		t.Errorf("got %+v, %v", p, err)
	}
	// One of a persona is of that persona's model, and so there are no loops; one may be made anew from itself.
	if err := create(persona.Persona{Name: "captain", From: "pirate", Parameters: persona.Parameters{"seed": int64(7)}}); err != nil {
		t.Fatal(err)
	}
	if err := create(persona.Persona{Name: "captain", From: "captain", System: "aye"}); err != nil {
		t.Fatal(err)
	}
	p, err = h.Persona("captain:latest")
	if err != nil || p.From != "ollama.com/tiny:latest" || p.System != "aye" || len(p.Parameters) != 2 {
		t.Errorf("got %+v, %v", p, err)
	}
	if err := h.Copy(t.Context(), "captain", "mate"); err != nil {
		t.Fatal(err)
	}
	if all, err := h.Personas(); err != nil || len(all) != 3 || all[1].Name != "mate" || all[1].System != "aye" {
		t.Errorf("got %+v, %v", all, err)
	}
	if err := h.Copy(t.Context(), "tiny", "small"); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []struct {
		err  error
		want string
	}{
		{create(persona.Persona{Name: "../x", From: "tiny"}), "the name"},
		{create(persona.Persona{Name: "demo", From: "tiny"}), "the name"},
		{create(persona.Persona{Name: "hf.co/a/b", From: "tiny"}), "the name"},
		{create(persona.Persona{Name: "small", From: "tiny"}), "is a model in the cache"},
		{h.Copy(t.Context(), "pirate", "small"), "is a model in the cache"},
		{h.Copy(t.Context(), "tiny", "pirate"), "is a persona"},
		{create(persona.Persona{Name: "self", From: "self"}), "made from itself"},
		{create(persona.Persona{Name: "a", From: "tiny", Messages: []persona.Message{{Role: "x"}}}), "the role"},
	} {
		if wrong.err == nil || !strings.Contains(wrong.err.Error(), wrong.want) {
			t.Errorf("got %v, want %q in it", wrong.err, wrong.want)
		}
	}
	if err := h.Copy(t.Context(), "captain", "boss:latest"); err != nil {
		t.Fatal(err)
	}
	if m, _, err := h.Remove(t.Context(), "boss"); err != nil || m.Name != "boss" {
		t.Errorf("a copy with the tag latest: %v %v", m, err)
	}
	if _, _, err := h.Remove(t.Context(), "tiny"); !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "captain, mate, pirate is made from it") {
		t.Errorf("the model of personas was removed: %v", err)
	}
	for _, name := range []string{"captain", "mate:latest", "pirate"} {
		if m, _, err := h.Remove(t.Context(), name); err != nil || m.Name != persona.BareName(name) {
			t.Errorf("%s: %v %v", name, m, err)
		}
	}
	if _, err := h.Persona("pirate"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a removed one: %v", err)
	}
	if _, _, err := h.Remove(t.Context(), "tiny"); err != nil {
		t.Error(err)
	}
}

// A name is a persona's or else a model's, and an error says which of the two reasons there are for neither.
func TestNamed(t *testing.T) {
	h := stored(t, "ollama.com/tiny:latest")
	if _, err := h.Create(t.Context(), &persona.Persona{Name: "pirate", From: "tiny"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.personas(), "bad.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, m, err := h.Named("pirate:latest"); err != nil || p == nil || p.Name != "pirate" || m != nil {
		t.Errorf("a persona: %v %v %v", p, m, err)
	}
	if p, m, err := h.Named("tiny"); err != nil || p != nil || m == nil || m.Name != "ollama.com/tiny:latest" {
		t.Errorf("a model: %v %v %v", p, m, err)
	}
	if p, m, err := h.Named("ollama.com/tiny:latest"); err != nil || p != nil || m == nil {
		t.Errorf("a model by a name that no persona can have: %v %v %v", p, m, err)
	}
	if p, m, err := h.Named("bad"); err == nil || errors.Is(err, ErrNotFound) || p != nil || m != nil {
		t.Errorf("a damaged persona: %v %v %v", p, m, err)
	}
	if p, m, err := h.Named("nope"); !errors.Is(err, ErrNotFound) || p != nil || m != nil {
		t.Errorf("neither: %v %v %v", p, m, err)
	}
}

// A model whose file has settings that this version does not know is there without them, and says so.
func TestUnknownSettings(t *testing.T) {
	h := stored(t, "ollama.com/tiny:latest")
	m, err := h.Find("tiny")
	if err != nil {
		t.Fatal(err)
	}
	m.Persona.Parameters["of_the_future"], m.Persona.Parameters["top_p"] = 1.0, "x"
	if err := h.write(m); err != nil {
		t.Fatal(err)
	}
	m, err = h.Find("tiny")
	if err != nil || len(m.Persona.Parameters) != 1 || m.Persona.Parameters["top_k"] != int64(3) || m.Persona.System != "base" {
		t.Fatalf("got %+v, %v", m, err)
	}
	const want = `settings that came with it are left out: there is no parameter "of_the_future"; top_p: got "x", want a number such as 0.7`
	if m.Skipped != want {
		t.Errorf("got %q, want %q", m.Skipped, want)
	}
}

// A damaged file is one line that says which, beside the others, and can be removed.
func TestDamagedPersona(t *testing.T) {
	h := stored(t, "ollama.com/tiny:latest")
	if _, err := h.Create(t.Context(), &persona.Persona{Name: "good", From: "tiny"}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bad": "{", "other": `{"version":1,"name":"good","from":"x"}`, "dots": `{"version":1,"name":"../dots","from":"x"}`,
		"baseless": `{"version":1,"name":"baseless"}`, "self": `{"version":1,"name":"self","from":"self"}`,
	} {
		path := filepath.Join(h.personas(), name+".json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		all, err := h.Personas()
		if len(all) != 1 || err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, %v", name, all, err)
		}
		if _, err := h.Persona(name); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := h.Create(t.Context(), &persona.Persona{Name: "new", From: name}); err == nil {
			t.Errorf("%s: a persona was made from it", name)
		}
		if _, _, err := h.Remove(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
