package train

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// known are outcomes without the adapter of texts that are measured again and again: nil of a chunk where they were not needed.
type known struct {
	of     [sha256.Size]byte // a hash of the texts
	chunks [][][]float64
}

// begin keeps what is known if the texts are the same as before.
func (k *known) begin(texts []model.Text, chunks int) {
	if of := Digest(texts); of != k.of || len(k.chunks) != chunks {
		*k = known{of, make([][][]float64, chunks)}
	}
}

// knowBase computes outcomes without the adapter where that was not done before. They depend on no company, so they are the
// same whenever it is done.
func (r *Run) knowBase(numbers []int, stop *kernel.Stop) error {
	if r.base == nil {
		r.base = make([][]float64, len(r.texts))
	}
	var missing []int
	for _, i := range numbers {
		if r.base[i] == nil {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	outcomes, err := r.baseOf(r.these(missing), stop)
	if err != nil {
		return err
	}
	for k, i := range missing {
		r.base[i] = outcomes[k]
	}
	return nil
}

var errBegun = errors.New("all weights are trained, and what texts come to with those of the beginning was not kept")

// baseOf returns what texts come to without the adapter. Where all weights are trained it is what they come to before the first
// step, as a saved run has it: in 32 bits.
func (r *Run) baseOf(texts []model.Text, stop *kernel.Stop) ([][]float64, error) {
	if r.trainer.HasBase() {
		return r.trainer.Outcomes(texts, true, stop)
	}
	if r.state.Taken > 0 {
		return nil, errBegun
	}
	all, err := r.trainer.Outcomes(texts, false, stop)
	for _, x := range all {
		for i, v := range x {
			x[i] = float64(float32(v))
		}
	}
	return all, err
}

// keepsBase reports whether outcomes of the beginning are lost once a step is taken, unless they are kept.
func (r *Run) keepsBase() bool {
	o := r.config.Objective
	return o != nil && o.Base() && !r.trainer.HasBase()
}

// Begin computes, before the first step, what will not be known after it: where all weights are trained and the objective compares
// with the model of the beginning, what all texts, and those that are held out and measured, come to. Otherwise it does nothing, and
// so it does when it is called again. Once stop is set it ends with model.ErrStopped, and may be called again.
func (r *Run) Begin(held []model.Text, stop *kernel.Stop) error {
	if !r.keepsBase() || r.state.Taken > 0 {
		return r.failed
	}
	at := 0
	for _, part := range r.inChunks(r.texts) {
		var numbers []int
		for range part {
			numbers, at = append(numbers, at), at+1
		}
		if err := r.knowBase(numbers, stop); err != nil {
			return err
		}
	}
	if len(held) == 0 {
		return nil
	}
	_, err := r.Measure(held, stop)
	return err
}

// Beginning returns what Begin has computed of all texts, and then of the held ones, for Know; nil: nothing, or not all.
func (r *Run) Beginning(held []model.Text) (all []float32) {
	if !r.keepsBase() {
		return nil
	}
	of := slices.Clone(r.base)
	if len(held) > 0 {
		if r.known.of != Digest(held) {
			return nil
		}
		for _, chunk := range r.known.chunks {
			of = append(of, chunk...)
		}
	}
	for _, x := range of {
		if x == nil {
			return nil
		}
		all = append(all, float32(x[0]))
	}
	if len(all) != len(r.texts)+len(held) {
		return nil
	}
	return all
}

// Know has the run know a Beginning, of the same texts.
func (r *Run) Know(held []model.Text, all []float32) error {
	if !r.keepsBase() || len(all) != len(r.texts)+len(held) {
		return fmt.Errorf("%d outcomes of the beginning, of %d texts and %d that are held out", len(all), len(r.texts), len(held))
	}
	var of [][]float64
	for _, v := range all {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return errors.New("outcomes of the beginning that are not finite")
		}
		of = append(of, []float64{float64(v)})
	}
	r.base, of = of[:len(r.texts):len(r.texts)], of[len(r.texts):]
	if len(held) == 0 {
		return nil
	}
	parts := r.inChunks(held)
	r.known.begin(held, len(parts))
	for i, part := range parts {
		r.known.chunks[i], of = of[:len(part):len(part)], of[len(part):]
	}
	return nil
}
