package sample

import "testing"

// The words are those that the standard of C++ has std::mt19937 draw: the 10,000th of the seed 5489 is 4123659995.
func TestTwister(t *testing.T) {
	var m twister
	m.seed(5489)
	if w := m.word(); w != 3499211612 {
		t.Errorf("the first word is %d", w)
	}
	for range 9998 {
		m.word()
	}
	if w := m.word(); w != 4123659995 {
		t.Errorf("the 10,000th word is %d", w)
	}
	m.seed(42)
	for i, want := range []float64{0.7965429843, 0.1834347879, 0.7796909976, 0.5968501616} {
		if u := m.uniform(); u < want-1e-9 || u > want+1e-9 {
			t.Errorf("draw %d of seed 42 is %.10f, want %.10f", i, u, want)
		}
	}
	m.seed(42)
	for i, want := range []float32{0.3745401, 0.7965430, 0.9507143, 0.1834348} {
		if u := m.uniform32(); u < want-1e-6 || u > want+1e-6 {
			t.Errorf("draw %d of 32 bits is %.7f, want %.7f", i, u, want)
		}
	}
	var other twister
	m.seed(7)
	other.seed(7 + 1<<32)
	if m.word() == other.word() {
		t.Error("the upper half of a seed has no effect")
	}
}
