package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"testing"
)

// Panels are in packed files, which other versions refuse: a change of the layout changes this hash, and then PanelsVersion
// has to change, too.
func TestPanelsVersion(t *testing.T) {
	const version, want = 3, "4a2a9eb1cd7a4516"
	const rows, n = 16, 512
	x := make([]float32, rows*n)
	for i := range x {
		x[i] = float32((i*7919)%2003-1001) / 4096
	}
	importance := make([]float32, n)
	for i := range importance {
		importance[i] = 1
	}
	h := sha256.New()
	for _, typ := range Types() {
		if CanEncode(typ, n) {
			hashPanel(t, h, typ, x, n, importance)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want || PanelsVersion != version {
		t.Errorf("panels of version %d have the hash %s, those of version %d %s", PanelsVersion, got, version, want)
	}
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
