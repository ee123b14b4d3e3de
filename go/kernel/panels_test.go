package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"testing"
)

// Panels are in packed files, which other versions refuse: a change of the layout changes this hash, and then PanelsVersion
// has to change, too.
func TestPanelsVersion(t *testing.T) {
	const version, want = 4, "d7ecf528e9031952"
	const rows = 16
	h := sha256.New()
	for _, n := range []int{512, 768} { // an even number of super-blocks, and an odd one
		x := make([]float32, rows*n)
		for i := range x {
			x[i] = float32((i*7919)%2003-1001) / 4096
		}
		importance := make([]float32, n)
		for i := range importance {
			importance[i] = 1
		}
		for _, typ := range Types() {
			if CanEncode(typ, n) {
				hashPanel(t, h, typ, x, n, importance)
			}
		}
	}
	hashTwelve(t, h)
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want || PanelsVersion != version {
		t.Errorf("panels of version %d have the hash %s, those of version %d %s", PanelsVersion, got, version, want)
	}
}

// hashTwelve adds a panel in 12 bits: a block of 256 columns, the rest of a row, and weights with exponents of their own.
func hashTwelve(t *testing.T, h hash.Hash) {
	t.Helper()
	m := Matrix{Type: BF16, In: 288, Out: Panel, N: 1, Data: alloc(t, 2*288*Panel)}
	for i := range 288 * Panel {
		x := float32((i*7919)%2003-1001) / 4096
		if i%197 == 5 {
			x = float32(math.Ldexp(float64(x), -20-i%7))
		}
		binary.LittleEndian.PutUint16(m.Data[2*i:], uint16(math.Float32bits(x)>>16))
	}
	to := m
	to.Layout = X12
	to.Data = alloc(t, to.PanelBytes())
	p, err := NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.PackInto(to, 0, m); err != nil {
		t.Fatal(err)
	}
	h.Write(to.Data)
}

func hashPanel(t *testing.T, h hash.Hash, typ Type, x []float32, n int, importance []float32) {
	t.Helper()
	encoded := make([]byte, len(x)/n*RowBytes(typ, n))
	if err := Encode(Scalar, typ, encoded, x, n, importance); err != nil {
		t.Fatal(err)
	}
	panel := alloc(t, PanelBytes(typ, n))
	if err := Pack(typ, panel, encoded, len(x)/n, n); err != nil {
		t.Fatal(err)
	}
	h.Write(panel)
}
