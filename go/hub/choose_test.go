package hub

import (
	"strings"
	"testing"
)

func filesOf(paths string) []File {
	var files []File
	for _, p := range strings.Fields(paths) {
		files = append(files, File{Path: p})
	}
	return files
}

// modelsIn returns what the answer about a repository has of models.
func modelsIn(body []byte) (commit string, files []File, err error) {
	r, err := parseRepository(body)
	if err != nil {
		return "", nil, err
	}
	return r.models()
}

// Repositories as people have them, and what a tag means there: the first file and how many there are.
func TestChoose(t *testing.T) {
	const bartowski = "a-IQ4_XS.gguf a-Q4_K_M.gguf a-Q4_K_S.gguf a-Q8_0.gguf a-f16.gguf a-Q6_K_L.gguf a-imatrix.gguf mmproj-a-f16.gguf README.md"
	const unsloth = "BF16/a-BF16-00001-of-00002.gguf BF16/a-BF16-00002-of-00002.gguf UD-Q4_K_XL/a-UD-Q4_K_XL-00001-of-00003.gguf UD-Q4_K_XL/a-UD-Q4_K_XL-00003-of-00003.gguf UD-Q4_K_XL/a-UD-Q4_K_XL-00002-of-00003.gguf a-UD-IQ1_S.gguf a-Q4_0.gguf mmproj-F16.gguf"
	for _, c := range []struct {
		files, tag string
		first      string
		count      int
	}{
		{bartowski, "", "a-Q4_K_M.gguf", 1},
		{bartowski, "q4_k_s", "a-Q4_K_S.gguf", 1},
		{bartowski, "F16", "a-f16.gguf", 1},
		{bartowski, "Q6_K_L", "a-Q6_K_L.gguf", 1},
		{unsloth, "", "a-Q4_0.gguf", 1},
		{unsloth, "Q4_K_XL", "UD-Q4_K_XL/a-UD-Q4_K_XL-00001-of-00003.gguf", 3},
		{unsloth, "ud-q4_k_xl", "UD-Q4_K_XL/a-UD-Q4_K_XL-00001-of-00003.gguf", 3},
		{unsloth, "BF16", "BF16/a-BF16-00001-of-00002.gguf", 2},
		{unsloth, "IQ1_S", "a-UD-IQ1_S.gguf", 1},
		{"gpt-oss-20b-mxfp4.gguf", "", "gpt-oss-20b-mxfp4.gguf", 1},
		{"model.gguf", "", "model.gguf", 1},
		{"qwen2.5-0.5b-instruct-q4_k_m.gguf qwen2.5-0.5b-instruct-q2_k.gguf", "", "qwen2.5-0.5b-instruct-q4_k_m.gguf", 1},
		{"Q4_K_M/model.gguf Q8_0/model.gguf", "Q8_0", "Q8_0/model.gguf", 1},
		{"a.Q4_K_M.gguf", "Q4_K_M", "a.Q4_K_M.gguf", 1},
		{"x-00000-of-00000.gguf", "", "x-00000-of-00000.gguf", 1}, // a name that only looks like a shard's
		{"m-Q4_K_M-00003-of-00002.gguf", "", "m-Q4_K_M-00003-of-00002.gguf", 1},
	} {
		g, err := choose(filesOf(c.files), c.tag)
		if err != nil || g.files[0].Path != c.first || len(g.files) != c.count {
			t.Errorf("%q of %s: %+v, %v; want %d files from %s", c.tag, c.files, g, err, c.count, c.first)
		}
	}
	for _, c := range []struct{ files, tag, want string }{
		{bartowski, "Q3_K_M", "no model is Q3_K_M, want one of :IQ4_XS :Q4_K_M"},
		{"README.md", "", "no GGUF files"},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf", "", "there are 2 models, and no default among them: /a-Q4_K_M.gguf /b-Q4_K_M.gguf"},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf", "Q4_K_M", "2 models are Q4_K_M: /a-Q4_K_M.gguf"},
		{"a-Q4_K_M-00001-of-00003.gguf a-Q4_K_M-00003-of-00003.gguf", "Q4_K_M", "a-Q4_K_M has 1 of its 3 files"},
		{"a-Q4_K_M-00002-of-00002.gguf", "Q4_K_M", "a-Q4_K_M has 0 of its 2 files"},
	} {
		if g, err := choose(filesOf(c.files), c.tag); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q of %s: %+v, %v; want %s", c.tag, c.files, g, err, c.want)
		}
	}
	g, err := containing(filesOf(unsloth), "UD-Q4_K_XL/a-UD-Q4_K_XL-00002-of-00003.gguf")
	if err != nil || len(g.files) != 3 {
		t.Errorf("a shard: %+v, %v", g, err)
	}
	g, err = containing(filesOf("x-00000-of-00000.gguf"), "x-00000-of-00000.gguf")
	if err != nil || len(g.files) != 1 {
		t.Errorf("what looks like a shard: %+v, %v", g, err)
	}
	if (&Plan{}).check() == nil {
		t.Error("a plan without files")
	}
	if _, err := containing(filesOf(unsloth), "b.gguf"); err == nil || !strings.Contains(err.Error(), ":Q4_0") {
		t.Errorf("no file: %v", err)
	}
}

// Hidden files, which notebooks and tools leave in repositories, are left out.
func TestHiddenFiles(t *testing.T) {
	_, files, err := modelsIn([]byte(`{"sha":"c0ffee","siblings":[{"rfilename":".ipynb_checkpoints/a-Q4_K_M.gguf"},{"rfilename":"a-Q4_K_M.gguf"},{"rfilename":"d/.b.gguf"}]}`))
	if err != nil || len(files) != 1 || files[0].Path != "a-Q4_K_M.gguf" {
		t.Errorf("%+v, %v", files, err)
	}
	if _, _, err := modelsIn([]byte(`{"sha":"c0ffee","siblings":[{"rfilename":"a/../../b.gguf"}]}`)); err == nil {
		t.Error("a path upwards is left out without an error")
	}
}

// What servers say of models is read, or an error, and names nothing outside of a folder.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"sha":"c0ffee","siblings":[{"rfilename":"a-Q4_K_M-00001-of-00002.gguf","size":5,"lfs":{"sha256":"`+sum64+`","size":5}},{"rfilename":"d/a-Q4_K_M-00002-of-00002.gguf"}]}`), "Q4_K_M")
	f.Add([]byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:`+sum64+`","size":-1,"annotations":{"org.opencontainers.image.title":"../a.gguf"}}],"manifests":[{"digest":"x"}]}`), "")
	f.Add([]byte(`{"size":300,"piece":4096,"have":[5]}`), "x")
	f.Add([]byte(`{"name":"a","files":[{"name":"a.gguf","size":1,"sha256":"`+sum64+`"}]}`), "UD-Q4_K_XL")
	f.Add([]byte(`{"sha":"c0ffee","siblings":[{"rfilename":"x-00000-of-00000.gguf"}]}`), "")
	f.Fuzz(func(t *testing.T, b []byte, tag string) {
		check := func(files []File) {
			p := &Plan{Files: files}
			if p.check() != nil {
				return
			}
			for i := range files {
				if name := files[i].Name(); name == ".." || strings.ContainsAny(name, "/\n") {
					t.Errorf("the file %q", name)
				}
			}
		}
		if _, files, err := modelsIn(b); err == nil {
			if g, err := choose(files, tag); err == nil {
				if len(g.files) == 0 {
					t.Errorf("%s has no files", g.stem)
				}
				check(g.files)
			}
		}
		if m, err := parseManifest(b); err == nil {
			if files, err := m.weights("model.gguf"); err == nil {
				check(files)
			}
		}
		if r, err := parseRecord(b); err == nil && (int64(len(r.Have)) != pieces(r.Size, r.Piece) || r.Piece <= 0) {
			t.Errorf("%+v", r)
		}
		if m, err := parseModel(b); err == nil && len(m.view()) != 40 {
			t.Errorf("%+v", m)
		}
		if from, to, total, err := parseContentRange(string(b)); err == nil && (from < 0 || from >= to || to > total) {
			t.Errorf("%d %d %d", from, to, total)
		}
	})
}
