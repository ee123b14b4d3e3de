package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// readCheckpoint reads a small checkpoint of testdata/checkpoints; testdata/README.md describes the format.
func readCheckpoint(tb testing.TB, name string) checkpoint {
	tb.Helper()
	f := readTable(tb, filepath.Join("testdata/checkpoints", name+".txt"), "differ beyond", "config.json tensors")
	c := checkpoint{config: f.sections["config.json"], tensors: f.sections["tensors"], differ: strings.Fields(f.values["differ"])}
	if c.config == "" || c.tensors == "" {
		tb.Fatalf("%s: want sections config.json and tensors", f.path)
	}
	if f.values["beyond"] != "" {
		c.beyond = regexp.MustCompile(f.values["beyond"])
	}
	return c
}

// TestArchs converts small checkpoints, and compares the results with files in llama.cpp's layout.
func TestArchs(t *testing.T) {
	for _, name := range tables(t, "checkpoints") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, dir := readCheckpoint(t, name), t.TempDir()
			c.write(t, dir)
			got, err := converted(t, dir, Options{Type: "f16"})
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(testdata.Path(t, "archs/"+name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			want, err := gguf.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			used := false
			for _, line := range diff(shapes(got), shapes(want)) {
				if c.beyond == nil || !c.beyond.MatchString(line) {
					t.Error(line)
				}
				used = true
			}
			if c.beyond != nil && !used {
				t.Errorf("no tensor differs by %s", c.beyond)
			}
			for _, line := range diff(settingsOf(got, c.differ), settingsOf(want, c.differ)) {
				t.Error(line)
			}
		})
	}
}

// settingsOf returns a line for each key of an architecture.
func settingsOf(f *gguf.File, but []string) []string {
	arch, _ := f.Str("general.architecture")
	var all []string
	for _, kv := range f.KVs {
		key, ok := strings.CutPrefix(kv.Key, arch+".")
		if ok && !slices.Contains(but, key) {
			value := kv.Value
			if r := reflect.ValueOf(value); r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint32 && key == "rope.dimension_sections" {
				value = fmt.Sprint(value)
			} else if key == "rope.dimension_sections" {
				value = fmt.Sprint(value)
			}
			all = append(all, fmt.Sprintf("%s %T %v", key, value, value))
		}
	}
	slices.Sort(all)
	return all
}

// diff returns the lines that only one of two lists has.
func diff(got, want []string) []string {
	var all []string
	for _, g := range got {
		if !slices.Contains(want, g) {
			all = append(all, "+ "+g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			all = append(all, "- "+w)
		}
	}
	return all
}
