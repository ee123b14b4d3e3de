package prepare

import "math"

// Smart returns the size near w x h whose sides are multiples of unit and whose area is between low and high pixels, with
// about the same proportions: smart_resize of Qwen2-VL's processor.
func Smart(w, h, unit, low, high int) (int, int) {
	u := float64(unit)
	nearest := func(n int) int { return max(unit, int(math.Round(float64(float32(n)/float32(unit))))*unit) }
	W, H := nearest(w), nearest(h)
	area := float64(w) * float64(h)
	switch {
	case float64(W)*float64(H) > float64(high):
		shrink := math.Sqrt(area / float64(high))
		down := func(n int) int { return max(unit, int(float64(n)/shrink/u)*unit) }
		return down(w), down(h)
	case W*H < low:
		grow := math.Sqrt(float64(low) / area)
		up := func(n int) int { return int(math.Ceil(float64(float64(n)*grow)/u)) * unit }
		return up(w), up(h)
	}
	return W, H
}

// Longest returns the size in the proportions of w x h whose longer side is edge pixels, rounded up to multiples of unit.
func Longest(w, h, unit, edge int) (int, int) {
	scale := min(float32(edge)/float32(w), float32(edge)/float32(h))
	up := func(n int) int {
		return max(unit, int(math.Ceil(float64(float32(float32(n)*scale)/float32(unit))))*unit)
	}
	return up(w), up(h)
}
