package arch

import "github.com/quern-llm/quern/go/kernel"

// windows gives a window to the layers that the file says, else to those that
// windowed does.
func (k *keys) windows(windowed func(il int) bool) { k.windowsIn(windowed, allBut) }

// windowsIn is windows where the number of a pattern means what of makes of it.
func (k *keys) windowsIn(windowed func(il int) bool, of func(n int) func(il int) bool) {
	k.windowsOf(k.int("attention.sliding_window", 1, maxCtx), windowed, of)
}

// windowsOf is windowsIn with windows of n positions.
func (k *keys) windowsOf(n int, windowed func(il int) bool, of func(n int) func(il int) bool) {
	const pattern = "attention.sliding_window_pattern"
	if all, err := k.f.Bools(k.name(pattern)); err == nil {
		k.forLayers(pattern, len(all))
		windowed = func(il int) bool { return all[il] }
	} else if all, err := k.f.Ints(k.name(pattern)); err == nil {
		k.forLayers(pattern, len(all))
		windowed = func(il int) bool { return all[il] != 0 }
	} else if k.has(pattern) {
		windowed = of(k.int(pattern, 0, maxLayer))
	}
	for il := range k.c.Layers {
		if windowed(il) {
			k.c.Layers[il].Window = n
		}
	}
}

// windowRope gives the rotations of layers with a window the base that the file says, else this one, and leaves the positions
// there as they are.
func (k *keys) windowRope(base float64) {
	base = k.floatOr("rope.freq_base_swa", base, 1.001, 1e15)
	for il := range k.c.Layers {
		if l := &k.c.Layers[il]; l.Window > 0 {
			l.Rope.Base, l.Rope.Scaling = base, noScaling
		}
	}
}

// windowBase gives the rotations of layers with a window the base that the file says. (llama.cpp reads it for cohere2 and olmo2
// too, and uses it for others only.)
func (k *keys) windowBase() {
	const key = "rope.freq_base_swa"
	if !k.has(key) {
		return
	}
	base := k.float(key, 1.001, 1e15)
	for _, layers := range [][]Layer{k.c.Layers, k.c.NextLayers} {
		for il := range layers {
			if l := &layers[il]; l.Window > 0 && l.Rope.Style != kernel.RopeNone {
				l.Rope.Base = base
			}
		}
	}
}

// ropeInWindows takes the rotations from layers without a window.
func (k *keys) ropeInWindows() {
	for il := range k.c.Layers {
		if l := &k.c.Layers[il]; l.Window == 0 {
			l.Rope = Rope{}
		}
	}
}

// allButFirst is true for all layers but those whose number n divides; of 0, for all.
func allButFirst(n int) func(il int) bool {
	return func(il int) bool { return n == 0 || il%n != 0 }
}

// allBut is true for all layers but every n-th; of 0 and 1, for all and for none.
func allBut(n int) func(il int) bool {
	return func(il int) bool { return n == 0 || il%n < n-1 }
}

// listedWindows gives a window to the layers that the file lists.
func (k *keys) listedWindows() {
	if _, err := k.f.Bools(k.name("attention.sliding_window_pattern")); err != nil {
		k.keep(err)
		return
	}
	k.windows(nil)
}

// rotatedInWindows reads over how many dimensions layers with a window rotate, which are as many as the others say where the file does not.
// These take no factors. others changes the rest.
func (k *keys) rotatedInWindows(others func(l *Layer)) {
	const rotated = "rope.dimension_count_swa"
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		switch {
		case l.Window == 0:
			if others != nil {
				others(l)
			}
		default:
			l.Rope.NRot, l.Rope.Factors = k.intOr(rotated, l.Rope.NRot, 2, max(l.HeadDim, 2)), ""
		}
		if l.Rope.NRot%2 != 0 {
			k.fail(rotated, "%d in layer %d, want an even number", l.Rope.NRot, il)
		}
	}
}
