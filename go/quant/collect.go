package quant

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Add adds sums of squares, [matrix][column], and numbers of rows, [matrix], to the entry of a tensor.
func (m *Matrix) Add(tensor string, sums []float64, counts []int64) error {
	e := m.Entries[tensor]
	if e == nil {
		e = &Entry{Sums: make([]float32, len(sums)), Counts: make([]float32, len(counts))}
		m.Entries[tensor] = e
	}
	if len(e.Sums) != len(sums) || len(e.Counts) != len(counts) {
		return fmt.Errorf("tensor %s: %d columns and %d matrices, %d and %d before", tensor, len(sums), len(counts), len(e.Sums), len(e.Counts))
	}
	for i, s := range sums {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("tensor %s: it is multiplied by numbers that are not finite", tensor)
		}
		e.Sums[i] += float32(s)
	}
	for i, n := range counts {
		e.Counts[i] += float32(n)
	}
	return nil
}

// Clone returns a copy.
func (m *Matrix) Clone() *Matrix {
	c := *m
	c.Datasets = slices.Clone(m.Datasets)
	c.Entries = make(map[string]*Entry, len(m.Entries))
	for name, e := range m.Entries {
		c.Entries[name] = &Entry{Sums: slices.Clone(e.Sums), Counts: slices.Clone(e.Counts)}
	}
	return &c
}

// Merge adds what another matrix of the same model has.
func (m *Matrix) Merge(other *Matrix) error {
	switch {
	case other.ChunkSize == 0:
		return errors.New("it is of the old format, without the counts that adding needs")
	case m.ChunkSize == 0:
		return errors.New("it cannot be added to a matrix of the old format, without the counts that adding needs")
	}
	for name, e := range other.Entries {
		sums, counts := make([]float64, len(e.Sums)), make([]int64, len(e.Counts))
		for i, s := range e.Sums {
			sums[i] = float64(s)
		}
		for i, n := range e.Counts {
			counts[i] = int64(n)
		}
		if err := m.Add(name, sums, counts); err != nil {
			return err
		}
	}
	m.Chunks += other.Chunks
	for _, d := range other.Datasets {
		if !slices.Contains(m.Datasets, d) {
			m.Datasets = append(m.Datasets, d)
		}
	}
	return nil
}

// Unused removes the matrices of a tensor that no row met: experts that no token chose keep what columns count at 0, which
// says nothing. It returns the names of the tensors none of whose matrices were used, which are left out, and of those of
// which some were.
func (m *Matrix) Unused() (none, some []string) {
	for name, e := range m.Entries {
		used := 0
		for _, n := range e.Counts {
			if n > 0 {
				used++
			}
		}
		switch {
		case used == 0:
			delete(m.Entries, name)
			none = append(none, name)
		case used < len(e.Counts):
			some = append(some, name)
		}
	}
	slices.Sort(none)
	slices.Sort(some)
	return none, some
}

// A Statistic says how unevenly the columns of a tensor count.
type Statistic struct {
	Tensor             string
	Columns            int
	Sum, Mean, Max, SD float64 // of mean squares
	Active             float64 // the part of columns whose mean square is above 10^-5
	Entropy            float64 // of the mean squares as probabilities, over that of equal ones
}

// Statistics returns those of all tensors, the largest sum first.
func (m *Matrix) Statistics() ([]Statistic, error) {
	all, err := m.Importance()
	if err != nil {
		return nil, err
	}
	var list []Statistic
	for name, v := range all {
		s := Statistic{Tensor: name, Columns: len(v)}
		n, squares := float64(len(v)), 0.0
		for _, x := range v {
			x := float64(x)
			s.Sum += x
			squares += x * x
			s.Max = max(s.Max, x)
			if x > 1e-5 {
				s.Active += 1 / n
			}
		}
		s.Mean = s.Sum / n
		s.SD = math.Sqrt(max(squares/n-s.Mean*s.Mean, 0))
		for _, x := range v {
			if p := float64(x) / s.Sum; p > 0 && n > 1 {
				s.Entropy -= p * math.Log(p) / math.Log(n)
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Statistic) int {
		return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.Tensor, b.Tensor))
	})
	return list, nil
}
