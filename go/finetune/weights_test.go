package finetune_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

var errEnough = errors.New("enough")

// weights are settings that train all weights, rounded to a mix, by Muon and AdamW.
func weights(mix string) finetune.Settings {
	s := small()
	s.Weights, s.Rate, s.Muon, s.MuonDecay, s.Decay, s.Share = mix, 1e-3, 0.002, 0.05, 0.01, 0.2
	return s
}

// All weights are trained with the same bits by any number of threads and on every instruction set, and where a run is
// interrupted; the loss falls, and the file has the types that were asked for.
func TestWeightsWithTheSameBits(t *testing.T) {
	defer kernel.Init(kernel.CPU())
	for _, mix := range []string{"BF16", "Q4_K_M"} {
		j, err := open(t, 1, 1<<30, weights(mix), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Run(t.Context(), finetune.Events{}); err != nil {
			t.Fatal(err)
		}
		want := written(t, j)
		if first, last := j.Points[0].Held, j.Points[len(j.Points)-1].Held; last >= first {
			t.Errorf("%s: a held-out loss of %v, then %v", mix, first, last)
		}
		f, err := gguf.Parse(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.MixName(); !strings.EqualFold(got, mix) && !strings.Contains(got, mix[:4]) {
			t.Errorf("a file of %q, want %s", got, mix)
		}
		ladder := kernel.Ladder(kernel.CPU())
		for _, isa := range []kernel.ISA{ladder[min(1, len(ladder)-1)], ladder[len(ladder)-1]} { // products of the first are slow
			kernel.Init(isa)
			if j, err = open(t, 3, 1<<30, weights(mix), nil); err != nil {
				t.Fatal(err)
			}
			saved := filepath.Join(t.TempDir(), "saved")
			err := j.Run(t.Context(), finetune.Events{Each: func() error {
				if j.Taken() == 3 {
					return errEnough
				}
				return nil
			}})
			if err != errEnough {
				t.Fatalf("error %v", err)
			}
			if err := j.Save(saved, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
			c, err := finetune.OpenCheckpoint(saved)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			again, err := open(t, 2, 1<<30, weights(mix), c.Plan)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Restore(c); err != nil {
				t.Fatal(err)
			}
			if err := again.Run(t.Context(), finetune.Events{}); err != nil {
				t.Fatal(err)
			}
			if got := written(t, again); !bytes.Equal(got, want) {
				t.Errorf("%s, %v: other bytes", mix, isa)
			}
		}
		kernel.Init(kernel.CPU())
	}
}

// Mixes that cannot be, and too little memory, are errors of one line.
func TestWeightsRefusals(t *testing.T) {
	for _, mix := range []string{"Q9", "IQ1_S"} {
		if _, err := open(t, 1, 1<<30, weights(mix), nil); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", mix, err)
		}
	}
	if _, err := open(t, 1, 1<<24, weights("F32"), nil); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}

// All weights learn from pairs by DPO, which compares with those of the beginning: before the first step there is no difference, so
// losses are those of a coin, and a run that is interrupted and goes on makes the bytes of one that was not.
func TestWeightsOfPairs(t *testing.T) {
	s := weights("BF16")
	s.Preference, s.Rate, s.Steps, s.Every, s.Share = finetune.DPO, 1e-4, 4, 2, 0.3
	j, err := open(t, 2, 1<<30, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context(), finetune.Events{}); err != nil {
		t.Fatal(err)
	}
	want, last := written(t, j), j.Points[len(j.Points)-1]
	if base, ok := j.Base(); !ok || math.Abs(base-math.Ln2) > 1e-4 || math.Abs(j.Points[1].Loss-math.Ln2) > 1e-4 {
		t.Errorf("a held-out loss of %v, and of %v of the first step, want %v", base, j.Points[1].Loss, math.Ln2)
	}
	if last.Held > 0.6 || last.HeldRight < 1 {
		t.Errorf("after the last step %+v", last)
	}
	for after := range 4 {
		first, err := open(t, 1, 1<<30, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = first.Run(t.Context(), finetune.Events{Each: func() error {
			if first.Taken() == after {
				return errEnough
			}
			return nil
		}})
		if err != errEnough {
			t.Fatal(err)
		}
		saved := filepath.Join(t.TempDir(), "saved")
		if err := first.Save(saved, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		if after > 0 {
			refusesWithoutBeginning(t, s, saved)
		}
		c, err := finetune.OpenCheckpoint(saved)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		again, err := open(t, 2, 1<<30, s, c.Plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Restore(c); err != nil {
			t.Fatal(err)
		}
		if _, _, err := again.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := again.Run(t.Context(), finetune.Events{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written(t, again), want) || !reflect.DeepEqual(again.Points, j.Points) {
			t.Errorf("interrupted after %d steps, the run makes something else", after)
		}
	}
}

// refusesWithoutBeginning expects that a saved run is refused whose numbers of the beginning were lost.
func refusesWithoutBeginning(t *testing.T, s finetune.Settings, saved string) {
	t.Helper()
	text, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, bytes.Replace(text, []byte(`"beginning"`), []byte(`"beginninG"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := finetune.OpenCheckpoint(damaged)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j, err := open(t, 1, 1<<30, s, c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Restore(c); err == nil || !strings.Contains(err.Error(), "tensor beginning is missing") || !strings.Contains(err.Error(), damaged) {
		t.Errorf("without the numbers of the beginning: %v", err)
	}
}
