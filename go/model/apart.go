package model

import (
	"fmt"
	"runtime"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
)

// typeOf returns the type of a tensor's rows after de-interleaving.
func typeOf(t *gguf.Tensor) kernel.Type {
	of, _ := t.Type.Apart()
	return kernel.Type(of)
}

// together returns how many rows of a tensor are interleaved.
func together(t *gguf.Tensor) int {
	_, n := t.Type.Apart()
	return n
}

// wholeGroups returns an error if any of these row numbers is not a multiple of the interleaved rows.
func wholeGroups(t *gguf.Tensor, rows ...int) error {
	for _, n := range rows {
		if g := together(t); n%g != 0 {
			return fmt.Errorf("tensor %q: type %v has rows interleaved by %d, which %d rows cannot be cut from", t.Name, t.Type, g, n)
		}
	}
	return nil
}

// apart de-interleaves rows into the beginning of buf and returns it. It uses all CPUs.
func apart(buf []byte, t *gguf.Tensor, in int, rows []byte) ([]byte, error) {
	typ, group := typeOf(t), together(t)*kernel.RowBytes(typeOf(t), in)
	buf = buf[:len(rows)]
	groups := len(rows) / group
	workers := min(runtime.GOMAXPROCS(0), groups)
	return buf, panics.Each(workers, func(w int) error {
		from, to := groups*w/workers*group, groups*(w+1)/workers*group
		return kernel.RowsApart(typ, buf[from:to], rows[from:to], in)
	})
}
