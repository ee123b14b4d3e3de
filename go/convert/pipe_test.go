package convert

import (
	"bytes"
	"errors"
	"testing"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
)

// A panic while a piece of a tensor is computed is the error of the conversion, whose next tensor would have all pieces.
func TestPipePanics(t *testing.T) {
	p := &pipe{ctx: t.Context(), threads: 2}
	x := &lang.Target{Name: "x", Type: gguf.F32, Dims: []uint64{pieceElems, 4}, View: lang.View{Shape: []uint64{4, pieceElems}}}
	x.Bytes = func(_ []byte, at uint64) error {
		if at > 0 {
			panic("in a piece")
		}
		return nil
	}
	var out bytes.Buffer
	err := p.write(&out, x)
	if bug := (*panics.Panic)(nil); !errors.As(err, &bug) || out.Len() != 4*pieceElems {
		t.Errorf("%v after %d bytes, want a panic", err, out.Len())
	}
	if len(p.free) != p.threads+1 {
		t.Errorf("%d pieces are free, want %d", len(p.free), p.threads+1)
	}
}
