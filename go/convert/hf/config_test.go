package hf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func written(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestConfig reads values of config.json: those of the text model count, and of several names the first that has one.
func TestConfig(t *testing.T) {
	c, err := Read(written(t, "config.json", `{"architectures": ["A"], "n": 3, "m": null, "scale": -Infinity, "text": "NaN -Infinity \" NaN",
"hidden_size": 1, "text_config": {"architectures": ["B"], "hidden_size": 64, "num_attention_heads": 4, "nothing": NaN, "on": false}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ got, want any }{
		{c.Texts("architectures")[0], "A"}, {c.Count("m n"), 3}, {c.CountOr("m", 7), 7}, {c.Has("m"), false}, {c.Has("m n"), true},
		{c.NumberOr("scale", 2), 2.0}, {c.Text("text"), `NaN -Infinity " NaN`}, {c.Count("hidden_size"), 64}, {c.HeadDim(), 16},
		{c.HeadsKV(), 4}, {c.FlagOr("on", true), false}, {c.FlagOr("off", true), true}, {c.Has("nothing"), false},
		{c.Within("text_config").Count("hidden_size"), 64}, {c.Within("other").Has("n"), false}, {c.Exists("config.json"), true},
		{c.Exists("other.json"), false}, {len(c.List("m")), 0}, {c.Experts(), 0},
	} {
		if x.got != x.want {
			t.Errorf("%v, want %v", x.got, x.want)
		}
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// TestErrors holds errors to one line that names the file and the setting. The first stays.
func TestErrors(t *testing.T) {
	for _, x := range []struct {
		text, want string
		read       func(c *Config)
	}{
		{`{}`, "no n", func(c *Config) { c.Count("n m") }},
		{`{"n": 1.5}`, "n is 1.5, want an integer", func(c *Config) { c.Count("n") }},
		{`{"n": -1}`, "n is -1, want an integer", func(c *Config) { c.Count("n") }},
		{`{"n": 2147483648}`, "want an integer", func(c *Config) { c.Count("n") }},
		{`{"n": "a"}`, "n is a, want a number", func(c *Config) { c.Number("n") }},
		{`{}`, "no n", func(c *Config) { c.Number("n") }},
		{`{"n": 1}`, "want true or false", func(c *Config) { c.Flag("n") }},
		{`{"n": 1}`, "want a string", func(c *Config) { c.Text("n") }},
		{`{"n": [1]}`, "want strings", func(c *Config) { c.Texts("n") }},
		{`{"n": ["a"]}`, "want numbers", func(c *Config) { c.Numbers("n") }},
		{`{"n": []}`, "want an object", func(c *Config) { c.Object("n") }},
		{`{"n": "b"}`, "n is b, want a or 2", func(c *Config) { c.Want("n", "a", "2") }},
		{`{"num_hidden_layers": 4097}`, "4097 layers, the most is 4096", func(c *Config) { c.Layers() }},
		{`{"head_dim": 65537, "hidden_size": 1, "num_heads": 1, "n_head": 1}`, "65537 channels", func(c *Config) { c.HeadDim() }},
		{`{"num_hidden_layers": 2, "layer_types": ["a"]}`, "layer_types names 1 layers of 2", func(c *Config) { c.TypesOf("a") }},
		{`{"mlp_layer_types": ["dense", "sparse", "dense"]}`, "want dense layers, and then others", func(c *Config) { c.Leading() }},
		{`{"n": {"m": "a"}}`, "m is a, want an integer", func(c *Config) { p := c.Within("n"); p.Count("m"); c.Take(p) }},
		{`{"n": 1.5}`, "no m", func(c *Config) { c.Count("m"); c.Count("n") }},
	} {
		c, err := Read(written(t, "config.json", x.text))
		if err != nil {
			t.Fatal(err)
		}
		x.read(c)
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "config.json: ") || !strings.Contains(err.Error(), x.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", x.text, err, x.want)
		}
	}
	for text, want := range map[string]string{`null`: "want an object", `{`: "config.json", `[]`: "config.json"} {
		if _, err := Read(written(t, "config.json", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no config.json") {
		t.Error(err)
	}
}

// TestLimits takes the largest values that are read.
func TestLimits(t *testing.T) {
	c := new(Config).Part(map[string]any{"n": 2147483647., "n_layer": 4096., "head_dim": 65536., "n_embd": 1., "n_head": 1.})
	if c.Count("n") != 2147483647 || c.Layers() != 4096 || c.HeadDim() != 65536 || c.Err() != nil {
		t.Error(c.Err())
	}
	for s, want := range map[string]int{"0": 0, "12345678": 12345678, "": -1, "123456789": -1, "1a": -1, "-1": -1, "/": -1, ":": -1} {
		n, ok := Digits(s)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%q is %d, %v", s, n, ok)
		}
	}
}

// TestRotations reads settings of rotations, of which each kind of layers may have its own.
func TestRotations(t *testing.T) {
	c := new(Config).Part(map[string]any{"rope_theta": 5., "rope_parameters": map[string]any{
		"full_attention": map[string]any{"rope_theta": 7., "partial_rotary_factor": 0.25}, "factor": 3.,
	}})
	if c.Theta() != 7 || c.Partial(1) != 0.25 || c.RopeOf("sliding_attention").Number("factor") != 3 {
		t.Errorf("%v, %v", c.Theta(), c.Partial(1))
	}
	c = new(Config).Part(map[string]any{"rope_theta": 5., "rope_pct": 0.5})
	if c.Theta() != 5 || c.Partial(1) != 0.5 || new(Config).Partial(1) != 1 || new(Config).Theta() != 0 {
		t.Errorf("%v, %v", c.Theta(), c.Partial(1))
	}
}

// TestUnread follows which values were asked for.
func TestUnread(t *testing.T) {
	dir := t.TempDir()
	text := `{"a": 1, "b": null, "c": [], "d": [2], "e": {"f": 3, "g": {"h": 4}, "i": {}}, "j": {"k": 5}, "l": 6,
		"m": [0, {"__float__": "Infinity"}], "n": {"__float__": "NaN"}, "text_config": {"o": 7, "a": 8}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := func(paths string) {
		t.Helper()
		if got := strings.Join(c.Unread(), " "); got != paths {
			t.Errorf("%q is unread, want %q", got, paths)
		}
	}
	want("a d e.f e.g.h j.k l m o")
	c.Count("a")
	c.CountOr("q l", 0)
	c.Object("j")
	want("d e.f e.g.h m o")
	c.Within("e").Count("f")
	c.Within("e").Within("g").Put("h", 1.0)
	c.Put("p", 1.0)
	want("d m o")
	if m := c.List("m"); len(m) != 2 || m[1] != nil {
		t.Errorf("m is %v, want a null where a number has no JSON", m)
	}
	if c.Value("d"); c.Err() != nil {
		t.Error(c.Err())
	}
	want("o")
}
