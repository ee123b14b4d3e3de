package model

import (
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// divided is the matrix that this rank has a part of.
type divided struct {
	out, n int
	parts  []*gguf.Tensor
	rows   []int // of the whole: where each of the parts of the matrix begins
}

// undivided returns the matrix as the file has it, with the memory of what this rank has.
func (m *matrix) undivided() *matrix {
	d := m.divided
	if d == nil {
		return m
	}
	whole := *m
	whole.Out, whole.N, whole.parts, whole.divided = d.out, d.n, d.parts, nil
	return &whole
}

// asked returns the matrix as it was asked for.
func (m *matrix) asked() kernel.Matrix { return m.undivided().Matrix }

// rowInWhole returns the number of a row that this rank has, in the whole of one matrix.
func (m *matrix) rowInWhole(row int) int {
	if m.divided == nil {
		return row
	}
	before := 0
	for i, t := range m.parts {
		n := len(t.Data) / kernel.RowBytes(typeOf(t), m.In)
		if row < before+n {
			return m.divided.rows[i] + row - before
		}
		before += n
	}
	return row
}

// divisible reports whether ranks can have these panels of a matrix alone. m is the matrix as a product sees it.
func (w *weights) divisible(m kernel.Matrix, lists [][]panels) bool {
	x := w.byName[m.Name]
	if x == nil || x.rows || x.panels != nil {
		return false
	}
	whole := x.undivided()
	each := kernel.Pad(whole.Out) / kernel.Panel
	if whole.N*each != m.N*kernel.Pad(m.Out)/kernel.Panel {
		return false
	}
	if x.remade == nil {
		return true
	}
	for _, l := range lists { // of matrices that are made of a tensor each
		if len(l) != 1 || len(whole.parts) != whole.N || l[0].from%each != 0 || l[0].to%each != 0 || x.squared {
			return false
		}
	}
	return true
}

// divide leaves a matrix with these panels alone; nil: with all.
func (m *matrix) divide(list []panels) {
	if list == nil {
		return
	}
	d := &divided{out: m.Out, n: m.N, parts: m.parts}
	each := kernel.Pad(m.Out) / kernel.Panel
	m.divided = d
	if m.remade != nil {
		m.parts, m.N = d.parts[list[0].from/each:list[0].to/each], (list[0].to-list[0].from)/each
		return
	}
	m.parts = nil
	panels, rows := 0, 0
	for _, p := range list {
		panels += p.to - p.from
		for p.from < p.to { // in one of the matrices at a time, unless their rows fill their panels
			of := p.from / each
			end := min(p.to, (of+1)*each)
			if m.Out%kernel.Panel == 0 {
				end = p.to
			}
			from := of*m.Out + p.from%each*kernel.Panel
			to := min(from+(end-p.from)*kernel.Panel, (of+1)*m.Out)
			if m.Out%kernel.Panel == 0 {
				to = from + (end-p.from)*kernel.Panel
			}
			m.take(from, to)
			rows += to - from
			p.from = end
		}
	}
	m.N, m.Out = 1, rows
	if len(m.parts) > 1 {
		m.Out = panels * kernel.Panel
	}
}

// take adds rows of the whole to the matrix, from one tensor or several.
func (m *matrix) take(from, to int) {
	before := 0
	for _, t := range m.divided.parts {
		n := len(t.Data) / kernel.RowBytes(typeOf(t), m.In)
		if a, b := max(from, before), min(to, before+n); a < b {
			m.parts = append(m.parts, rowsOf(t, m.In, a-before, b-a))
			m.divided.rows = append(m.divided.rows, a)
		}
		before += n
	}
}

// memory returns n floats that are the weights'.
func (w *weights) memory(n int) []float32 {
	r, err := mem.Alloc(uint64(n)*4, "biases")
	if err != nil {
		panic(err) // as where Go has no memory
	}
	w.lone = append(w.lone, r)
	return mem.Float32s(r.Bytes())[:n]
}
