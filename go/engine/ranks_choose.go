package engine

import (
	"github.com/quern-llm/quern/go/measure"
	"github.com/quern-llm/quern/go/model"
)

// choose decides once whether a model is divided by rows or by layers, if that is asked for: by what this machine computes, and
// how long exchanges take.
func (r *Ranks) choose(s *model.Survey, d *Device) error {
	if !r.Choose || d == nil || r.Group.Count() < 2 { // without a device nothing is loaded
		return nil
	}
	if !r.claim() {
		return errClaimed
	}
	r.Choose = false
	network, err := r.Measure()
	r.release()
	if err != nil {
		return err
	}
	var roof measure.Roofline
	if err := d.inTurn(func() (err error) {
		roof, err = measure.NewRoofline(d.pool, d.place.Places)
		return err
	}); err != nil {
		return err
	}
	p, err := s.Predict(r.Ranks, model.Machine{ReadBytes: roof.ReadBytesPerSec, Int8MACs: roof.Int8MACPerSec}, network)
	if err != nil {
		return err
	}
	if r.Layers = p.Better(); r.Chosen != nil {
		r.Chosen(p, network)
	}
	return nil
}
