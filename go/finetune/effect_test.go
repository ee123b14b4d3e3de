package finetune_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/finetune"
)

// What a comparison says of losses is what was measured while the adapter was trained, and it leaves the run as it was.
func TestCompareIsWhatWasMeasured(t *testing.T) {
	s := small()
	s.Share = 0.3
	j, err := open(t, 1, 1<<30, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if j.CanCompare() {
		t.Error("an adapter that is not trained can be compared")
	}
	if err := j.Run(t.Context(), finetune.Events{}); err != nil {
		t.Fatal(err)
	}
	before := written(t, j)
	e, err := j.Compare(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	base, ok := j.Base()
	if !ok || !j.CanCompare() || e.Examples != len(j.Held) || e.Of != e.Examples || e.Tokens != j.HeldOut.Learnt {
		t.Errorf("%d examples of %d, %d predictions of %d", e.Examples, e.Of, e.Tokens, j.HeldOut.Learnt)
	}
	if was, is := math.Log(e.BasePPL.Value), math.Log(e.PPL.Value); math.Abs(was-base) > 1e-5 || math.Abs(is-j.Best) > 1e-5 {
		t.Errorf("losses of %.6f and %.6f, measured were %.6f and %.6f", was, is, base, j.Best)
	}
	if e.KLD.Value < 0.01 || e.SameToken.Value >= 1 {
		t.Errorf("the adapter changes nothing: %+v", e)
	}
	if !bytes.Equal(before, written(t, j)) {
		t.Error("the adapter is another one afterwards")
	}
	short, err := j.Compare(t.Context(), 0)
	if err != nil || short.Examples != 1 || short.Of != e.Of {
		t.Errorf("%d examples of %d in no time: %v", short.Examples, short.Of, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.Compare(ended, time.Hour); !errors.Is(err, context.Canceled) || !bytes.Equal(before, written(t, j)) {
		t.Errorf("a comparison that is stopped: %v", err)
	}
}
