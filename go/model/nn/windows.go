package nn

import "github.com/quern-llm/quern/go/kernel"

// Windows gives a window to the layers that the file says, or else to those for which windowed is true.
func (k *Keys) Windows(windowed func(il int) bool) { k.WindowsIn(windowed, AllBut) }

// WindowsIn is Windows if a pattern in the file is a number n, which means the layers of of(n).
func (k *Keys) WindowsIn(windowed func(il int) bool, of func(n int) func(il int) bool) {
	k.WindowsOf(k.Int("attention.sliding_window", 1, MaxCtx), windowed, of)
}

// WindowsOf is WindowsIn with windows of n positions.
func (k *Keys) WindowsOf(n int, windowed func(il int) bool, of func(n int) func(il int) bool) {
	const pattern = "attention.sliding_window_pattern"
	if all, err := k.File.Bools(k.Name(pattern)); err == nil {
		k.ForLayers(pattern, len(all))
		windowed = func(il int) bool { return all[il] }
	} else if all, err := k.File.Ints(k.Name(pattern)); err == nil {
		k.ForLayers(pattern, len(all))
		windowed = func(il int) bool { return all[il] != 0 }
	} else if k.Has(pattern) {
		windowed = of(k.Int(pattern, 0, MaxLayer))
	}
	for il := range k.Config.Layers {
		if windowed(il) {
			k.Config.Layers[il].Window = n
		}
	}
}

// WindowRope sets the base of the rotations in layers with a window, to what the file says or else to base, without
// scaling or factors.
func (k *Keys) WindowRope(base float64) {
	base = k.FloatOr("rope.freq_base_swa", base, 1.001, 1e15)
	for il := range k.Config.Layers {
		if l := &k.Config.Layers[il]; l.Window > 0 {
			l.Rope.Base, l.Rope.Scaling, l.Rope.Factors = base, NoScaling, ""
		}
	}
}

// windowBase sets the base of the rotations in layers with a window if the file says it. (llama.cpp reads the key for
// cohere2 and olmo2 too, and uses it only for others.)
func (k *Keys) windowBase() {
	const key = "rope.freq_base_swa"
	if !k.Has(key) {
		return
	}
	base := k.Float(key, 1.001, 1e15)
	for _, layers := range [][]LayerConfig{k.Config.Layers, k.Config.NextLayers} {
		for il := range layers {
			if l := &layers[il]; l.Window > 0 && l.Rope.Style != kernel.RopeNone {
				l.Rope.Base = base
			}
		}
	}
}

// RopeInWindows removes the rotations from layers without a window (NoPE).
func (k *Keys) RopeInWindows() {
	for il := range k.Config.Layers {
		if l := &k.Config.Layers[il]; l.Window == 0 {
			l.Rope = Rope{}
		}
	}
}

// AllButFirst is true for the layers whose number n does not divide; with n = 0, for all.
func AllButFirst(n int) func(il int) bool {
	return func(il int) bool { return n == 0 || il%n != 0 }
}

// AllBut is false for every n-th layer, n-1 first, and true for the others; with n = 0 it is true for all.
func AllBut(n int) func(il int) bool {
	return func(il int) bool { return n == 0 || il%n < n-1 }
}

// ListedWindows gives a window to the layers that the file lists.
func (k *Keys) ListedWindows() {
	if _, err := k.File.Bools(k.Name("attention.sliding_window_pattern")); err != nil {
		k.Check(err)
		return
	}
	k.Windows(nil)
}

// otherWindows gives a window to the layers that the file lists, if the architecture does not read where windows are.
func (k *Keys) otherWindows() {
	const pattern = "attention.sliding_window_pattern"
	if k.asked[pattern] {
		return
	}
	if _, err := k.File.Bools(k.Name(pattern)); err == nil {
		k.Windows(nil)
	}
}

// RotatedInWindows reads how many dimensions layers with a window rotate; by default as many as the others. They have
// no factors. others, if not nil, changes layers without a window.
func (k *Keys) RotatedInWindows(others func(l *LayerConfig)) {
	const rotated = "rope.dimension_count_swa"
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		switch {
		case l.Window == 0:
			if others != nil {
				others(l)
			}
		default:
			l.Rope.NRot, l.Rope.Factors = k.IntOr(rotated, l.Rope.NRot, 2, max(l.HeadDim, 2)), ""
		}
		if l.Rope.NRot%2 != 0 {
			k.Fail(rotated, "%d in layer %d, want an even number", l.Rope.NRot, il)
		}
	}
}
