package prepare

import "math"

// Smart returns the size near w x h whose sides are multiples of unit and whose area is between low and high pixels, with
// about the same proportions: smart_resize of Qwen2-VL's processor.
func Smart(w, h, unit, low, high int) (int, int) {
	u := float64(unit)
	W, H := Nearby(w, unit), Nearby(h, unit)
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

// Nearby returns the multiple of unit that is nearest to n, and not 0.
func Nearby(n, unit int) int {
	return max(unit, int(math.Round(float64(float32(n)/float32(unit))))*unit)
}

// Longest returns the size in the proportions of w x h whose longer side is edge pixels, rounded up to multiples of unit.
func Longest(w, h, unit, edge int) (int, int) {
	scale := min(float32(edge)/float32(w), float32(edge)/float32(h))
	up := func(n int) int {
		return max(unit, int(math.Ceil(float64(float32(float32(n)*scale)/float32(unit))))*unit)
	}
	return up(w), up(h)
}

// Even returns the size in the proportions of w x h whose longer side is edge pixels, and the other an even number: the first
// step of Idefics 3's processor.
func Even(w, h, edge int) (int, int) {
	other := func(short, long int) int {
		n := int(float64(edge) / (float64(long) / float64(short)))
		return max(1, n+n%2)
	}
	if w >= h {
		return edge, other(h, w)
	}
	return other(w, h), edge
}

// Whole returns the size of whole tiles of a side near w x h, rounded up, in about the same proportions: its second step.
func Whole(w, h, side int) (int, int) {
	up := func(n float64) int { return int(math.Ceil(n/float64(side))) * side }
	aspect := float64(w) / float64(h)
	if w >= h {
		w = up(float64(w))
		return w, up(math.Trunc(float64(w) / aspect))
	}
	h = up(float64(h))
	return up(math.Trunc(float64(h) * aspect)), h
}
