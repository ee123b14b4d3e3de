package nn

import "github.com/quern-llm/quern/go/kernel"

// Windows gives a window to the layers that the file says, else to those that
// windowed does.
func (k *Keys) Windows(windowed func(il int) bool) { k.WindowsIn(windowed, AllBut) }

// WindowsIn is windows where the number of a pattern means what of makes of it.
func (k *Keys) WindowsIn(windowed func(il int) bool, of func(n int) func(il int) bool) {
	k.WindowsOf(k.Int("attention.sliding_window", 1, MaxCtx), windowed, of)
}

// WindowsOf is windowsIn with windows of n positions.
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

// WindowRope gives the rotations of layers with a window the base that the file says, else this one, and leaves the positions
// there as they are.
func (k *Keys) WindowRope(base float64) {
	base = k.FloatOr("rope.freq_base_swa", base, 1.001, 1e15)
	for il := range k.Config.Layers {
		if l := &k.Config.Layers[il]; l.Window > 0 {
			l.Rope.Base, l.Rope.Scaling = base, NoScaling
		}
	}
}

// windowBase gives the rotations of layers with a window the base that the file says. (llama.cpp reads it for cohere2 and olmo2
// too, and uses it for others only.)
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

// RopeInWindows takes the rotations from layers without a window.
func (k *Keys) RopeInWindows() {
	for il := range k.Config.Layers {
		if l := &k.Config.Layers[il]; l.Window == 0 {
			l.Rope = Rope{}
		}
	}
}

// AllButFirst is true for all layers but those whose number n divides; of 0, for all.
func AllButFirst(n int) func(il int) bool {
	return func(il int) bool { return n == 0 || il%n != 0 }
}

// AllBut is true for all layers but every n-th; of 0 and 1, for all and for none.
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

// RotatedInWindows reads over how many dimensions layers with a window rotate, which are as many as the others say where the file does not.
// These take no factors. others changes the rest.
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
