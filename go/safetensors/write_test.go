package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a Writer writes is read as it was, with the texts of the header.
func TestWriter(t *testing.T) {
	var w Writer
	w.Set("format", "pt")
	w.Set("a \"text\"", "of\nlines")
	w.AddFloats("b", []uint64{2, 3}, []float32{1, -2, 3.5, 4, 5, 6})
	w.AddFloats("a", []uint64{0}, nil)
	w.AddFloats("c", nil, []float32{7})
	var out bytes.Buffer
	n, err := w.WriteTo(&out)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("%d bytes of %d, %v", n, out.Len(), err)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Metadata("a \"text\""); got != "of\nlines" || c.Metadata("format") != "pt" || c.Metadata("none") != "" {
		t.Errorf("text %q", got)
	}
	b := c.Tensor("b")
	got := make([]float32, 6)
	if err := b.Floats(got, 0); err != nil || !slices.Equal(got, []float32{1, -2, 3.5, 4, 5, 6}) || !slices.Equal(b.Shape, []uint64{2, 3}) {
		t.Errorf("%v of %v: %v", got, b.Shape, err)
	}
	if b.at%8 != 0 || len(c.Names()) != 3 {
		t.Errorf("data begins at %d; tensors %v", b.at, c.Names())
	}
	w.AddFloats("wrong", []uint64{2}, []float32{1})
	if _, err := w.WriteTo(&out); err == nil {
		t.Error("a shape of other numbers was written")
	}
}
