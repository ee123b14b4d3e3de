package convert

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

func parseFile(tb testing.TB, name string) *gguf.File {
	tb.Helper()
	b, err := os.ReadFile(testdata.Path(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	f, err := gguf.Parse(b)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// TestTinyStories converts a real checkpoint and compares every tensor and every key with a file that another converter
// made.
func TestTinyStories(t *testing.T) {
	dir := testdata.Path(t, "models/src/TinyStories-656K")
	for _, c := range []struct {
		options Options
		file    string
	}{
		{Options{Type: "F32"}, "models/TinyStories-656K-f32.gguf"},
		{Options{}, "models/TinyStories-656K-f32.gguf"},
		{Options{Type: "f16"}, "models/TinyStories-656K-f16.gguf"},
	} {
		got, err := converted(t, dir, c.options)
		if err != nil {
			t.Fatal(err)
		}
		want := parseFile(t, c.file)
		if d := diff(shapes(got), shapes(want)); d != nil {
			t.Errorf("%s: %s", c.file, strings.Join(d, "; "))
		}
		for _, w := range want.Tensors {
			if g, ok := got.Tensor(w.Name); ok && !bytes.Equal(g.Data, w.Data) {
				t.Errorf("%s: %s has other numbers", c.file, w.Name)
			}
		}
		for _, kv := range want.KVs {
			v, ok := got.Value(kv.Key)
			if !strings.HasPrefix(kv.Key, "general.") && (!ok || !reflect.DeepEqual(v, kv.Value)) {
				t.Errorf("%s: %s is %.80s, want %.80s", c.file, kv.Key, fmt.Sprint(v), fmt.Sprint(kv.Value))
			}
		}
	}
}
