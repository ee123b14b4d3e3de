package model

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/mutate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/model/projector"
)

// FuzzProjectors changes what the files of small encoders say of themselves: they are read, and see a picture, or are refused
// in a line.
func FuzzProjectors(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(testdata.Path(f, "mmproj"), "mm", "*-f16.gguf"))
	if err != nil || len(paths) == 0 {
		f.Fatal("no projectors", err)
	}
	z := &zoo{}
	for _, path := range paths {
		z.models, z.names = append(z.models, read(f, path)), append(z.names, filepath.Base(path))
	}
	for _, c := range eyes(f) {
		z.models, z.names = append(z.models, read(f, c.write(f))), append(z.names, c.Name)
	}
	z.index()
	for i := range z.models {
		f.Add(uint16(i), []byte{byte(i), 1, byte(i >> 1), 3, 5, 8, 13})
	}
	f.Fuzz(func(t *testing.T, which uint16, script []byte) {
		z.tryProjector(t, int(which)%len(z.models), script)
	})
}

func (z *zoo) tryProjector(t *testing.T, which int, script []byte) {
	t.Helper()
	d := &draft{slices.Clone(z.models[which].kvs), slices.Clone(z.models[which].tensors)}
	for i := range d.tensors {
		d.tensors[i].Dims = slices.Clone(d.tensors[i].Dims)
	}
	r := &mutate.Dice{Left: script}
	for range 1 + r.Below(3) {
		z.mutate(d, r)
	}
	w := gguf.NewWriter()
	for _, kv := range d.kvs {
		w.Set(kv.Key, kv.Value)
	}
	for _, x := range d.tensors {
		if size, err := x.Type.Size(x.Dims); err != nil || size == 0 {
			return // which the format does not allow
		}
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	outline, err := w.Outline()
	if err != nil {
		return
	}
	for _, s := range []projector.Sense{projector.Sight, projector.Hearing} {
		_, e, err := SurveyEncoder(Outline("changed", outline), s, EncoderType(len(script)%len(encoderTypes)), kvEncoder)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%s by %v: more than a line: %v", z.names[which], script, err)
			}
			continue
		}
		if s == projector.Hearing {
			e.Hear(make([]float32, 700))
			continue
		}
		unit := e.Patch * e.Merge
		if e.Side > 1<<10 || e.Edge > 1<<10 || unit > 1<<6 || e.MinRows*unit*unit > 1<<22 {
			continue // large pictures take long
		}
		for _, part := range e.See(&picture.RGB{Width: 5, Height: 7, Pix: bytes.Repeat([]byte{3}, 5*7*3)}) {
			if in := part.Input; in != nil {
				row := make([]float32, in.Columns)
				in.Row(row, 0)
				in.Row(row, in.Tokens-1)
			}
		}
	}
}
