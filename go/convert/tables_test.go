package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/convert/family"
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model/arch"
)

// A table is a text file of testdata; testdata/README.md describes the format.
type table struct {
	path     string
	values   map[string]string
	sections map[string]string
}

// readTable reads a table, which may have these values and sections and no others.
func readTable(tb testing.TB, path, values, sections string) table {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	f := table{path, map[string]string{}, map[string]string{}}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			if _, twice := f.sections[section]; twice || !slices.Contains(strings.Fields(sections), section) {
				tb.Fatalf("%s: a section [%s] twice, or one that is not known; want %s", path, section, sections)
			}
			f.sections[section] = ""
		case section != "":
			f.sections[section] += line + "\n"
		default:
			name, value, ok := strings.Cut(line, ": ")
			if _, twice := f.values[name]; !ok || twice || !slices.Contains(strings.Fields(values), name) {
				tb.Fatalf("%s: %q is twice there, or not known; want %s", path, line, values)
			}
			f.values[name] = value
		}
	}
	return f
}

// truth returns whether a value is true. Anything else but true is an error.
func (f table) truth(tb testing.TB, name string) bool {
	tb.Helper()
	if v, ok := f.values[name]; ok && v != "true" {
		tb.Fatalf("%s: %s is %q, want true or nothing", f.path, name, v)
	}
	return f.values[name] == "true"
}

// tables returns the names of the tables in a folder of testdata.
func tables(tb testing.TB, folder string) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no tables in %s: %v", folder, err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".txt"))
	}
	return names
}

// TestTables checks that no table is missing: each architecture that runs has an origin, or is compared with transformers,
// and so has each small model that another program has computed logits of.
func TestTables(t *testing.T) {
	names, archs := map[string]bool{}, map[string]bool{}
	for _, name := range tables(t, "origins") {
		dir := t.TempDir()
		save(t, dir, "config.json", readOrigin(t, name).config)
		f := must(family.Of(must(hf.Read(dir))))
		names[name], archs[f.Arch] = true, true
	}
	if n := len(tables(t, "checkpoints")); n < 53 {
		t.Errorf("%d tables in testdata/checkpoints, want 53 or more", n)
	}
	for _, path := range must(filepath.Glob("testdata/transformers/*.json")) {
		dir := t.TempDir()
		save(t, dir, "config.json", string(readArchive(t, path)[0].Config))
		archs[must(family.Of(must(hf.Read(dir)))).Arch] = true
	}
	const speech = "../transcribe/testdata/checkpoint" // whose logits that package compares
	archs[must(family.Of(must(hf.Read(speech)))).Arch] = true
	for _, name := range arch.Names() {
		if !archs[name] {
			t.Errorf("%s has no origin, and is not compared with transformers", name)
		}
	}
	for _, folder := range []string{"../model/testdata/archs", testdata.Path(t, "archs")} {
		for _, path := range must(filepath.Glob(filepath.Join(folder, "*.gguf"))) {
			if name := strings.TrimSuffix(filepath.Base(path), ".gguf"); names[name] == slices.Contains(withoutOrigin, name) {
				t.Errorf("%s has an origin: %v, which is not what withoutOrigin says", path, names[name])
			}
		}
	}
}

// withoutOrigin are small models without a checkpoint. Others of their architectures have one.
var withoutOrigin = []string{"deepseek2-mha", "exaone4-32b", "nemotron_h_moe-latent"}
