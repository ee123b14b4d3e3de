package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/media/picture"
)

// A Film is frames of one size, in the order of time.
type Film struct {
	Frames []*picture.RGB
	Rate   float64 // frames a second
}

// Watch returns what stands in a prompt for a film: pictures, each of as many frames as the encoder makes a row of, with stamps
// of time before them, or what the publisher of the models has in their place.
func (e *Encoder) Watch(f Film) (parts []Part) {
	eye := *e
	if e.FilmRows > 0 {
		eye.MaxRows = min(e.MaxRows, e.FilmRows)
		eye.MinRows = min(e.MinRows, eye.MaxRows*3/4) // sides are rounded up to the least, and down to the most
	}
	var steps []Part
	for i := 0; i < len(f.Frames); i += e.Frames {
		last := min(i+e.Frames, len(f.Frames)) - 1
		eye.second = nil
		if last > i {
			eye.second = f.Frames[last]
		}
		seen := eye.See(f.Frames[i])
		for _, p := range seen {
			if p.Input != nil {
				steps = append(steps, p)
			}
		}
		parts = append(parts, Part{Text: e.stamp(i, float64(i+last)/2/f.Rate)})
		parts = append(parts, seen...)
	}
	if e.Kind.film != nil {
		return e.Kind.film(e, steps, f)
	}
	return parts
}

// stamp returns what stands before what is seen from frame i on, after so many seconds. That of Gemma 4 is everyone's whose
// publisher has no other.
func (e *Encoder) stamp(i int, at float64) string {
	if e.Kind.stamp != nil {
		return e.Kind.stamp(at)
	}
	space := ""
	if i > 0 {
		space = " "
	}
	return fmt.Sprintf("%s%02d:%02d ", space, int(at)/60, int(at)%60)
}
