package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/sched"
)

// A machine has a pace: what passes take on it.
type pace struct {
	first, token, row time.Duration
	attended, read    time.Duration // per position
	ran               []string      // depth, tokens and rows
	odd               time.Duration // what the first and the last of three equal passes take more, and less
	fails             int           // the pass that fails, counted from 1; 0: none
}

func (p *pace) took(depth, n, rows int) time.Duration {
	return p.first + time.Duration(n)*p.token + time.Duration(rows-1)*p.row + time.Duration(n*depth)*p.attended +
		time.Duration(depth)*p.read
}

func (p *pace) run(depth, n, rows int) (time.Duration, error) {
	p.ran = append(p.ran, fmt.Sprintf("%d %d %d", depth, n, rows))
	if len(p.ran) == p.fails {
		return 0, errSlotShort
	}
	t := p.took(depth, n, rows)
	equal := 0
	for _, ran := range p.ran[1:] { // without the warm-up
		if ran == p.ran[len(p.ran)-1] {
			equal++
		}
	}
	switch equal {
	case 1:
		t += p.odd
	case 3:
		t -= p.odd
	}
	return t, nil
}

// What a calibration learns is the pace of the machine: the time of each size, of a row, of positions that are attended
// to and read; from passes of the model's sizes, of which those that are short are timed three times, and no longer
// ones than it takes.
func TestCalibration(t *testing.T) {
	us, ms := time.Microsecond, time.Millisecond
	three := func(list ...string) (all []string) {
		for _, s := range list {
			all = append(all, s, s, s)
		}
		return all
	}
	for name, c := range map[string]struct {
		k    calibration
		pace pace
		ran  []string
	}{
		"fast": {
			calibration{most: 512, at: 2048, logits: true},
			pace{first: ms, token: 100 * us, row: 10 * us, attended: 2, read: 30},
			slices.Concat([]string{"0 1 1"}, three("0 1 1", "0 4 4", "0 8 8", "0 16 16"), []string{"0 64 1", "0 256 1"},
				three("0 16 1"), []string{"2048 1 1", "2048 64 1"}),
		},
		"without logits": {
			calibration{most: 512, at: 64}, pace{first: ms, token: 100 * us, attended: 2, read: 30},
			slices.Concat([]string{"0 1 1"}, three("0 1 1", "0 4 1", "0 8 1", "0 16 1"),
				[]string{"0 64 1", "0 256 1", "64 1 1", "64 64 1"}),
		},
		"noisy": {
			calibration{most: 16, at: 64, logits: true}, pace{first: ms, token: 100 * us, row: 10 * us, odd: 500 * us},
			slices.Concat([]string{"0 1 1"}, three("0 1 1", "0 4 4", "0 8 8", "0 16 16", "0 16 1")),
		},
		"just short": {
			calibration{most: 16, logits: true}, pace{first: 50 * ms},
			slices.Concat([]string{"0 1 1"}, three("0 1 1", "0 4 4", "0 8 8", "0 16 16", "0 16 1")),
		},
		"not slow yet": {
			calibration{most: 256, logits: true}, pace{first: 200 * ms, row: 20 * ms},
			[]string{"0 1 1", "0 1 1", "0 4 4", "0 8 8", "0 16 16", "0 64 1", "0 256 1", "0 16 1"},
		},
		"slow": {
			calibration{most: 256, at: 64, logits: true}, pace{first: 201 * ms, row: 20 * ms},
			[]string{"0 1 1", "0 1 1", "0 4 4", "0 8 8", "0 16 16", "0 16 1"},
		},
		"slow from the first on": {
			calibration{most: 256, at: 64}, pace{first: 501 * ms},
			[]string{"0 1 1", "0 1 1", "0 4 1", "0 8 1", "0 16 1"},
		},
		"of a small batch": {
			calibration{most: 15, at: 64, logits: true}, pace{first: ms, token: 100 * us},
			slices.Concat([]string{"0 1 1"}, three("0 1 1", "0 4 4", "0 8 8")),
		},
		"of 64 tokens": {
			calibration{most: 64, at: 128}, pace{first: 60 * ms, token: us, attended: 3, read: 7},
			[]string{"0 1 1", "0 1 1", "0 4 1", "0 8 1", "0 16 1", "0 64 1", "128 1 1", "128 64 1"},
		},
		"from disk": {
			calibration{most: 512, at: 2048, logits: true, reads: true}, pace{first: 3 * time.Second, token: us},
			[]string{"0 1 1", "0 1 1", "0 16 16", "0 64 1"},
		},
	} {
		var cost sched.Cost
		if err := c.k.measure(&cost, c.pace.run); err != nil || !slices.Equal(c.pace.ran, c.ran) {
			t.Errorf("%s: %v, passes %v, want %v", name, err, c.pace.ran, c.ran)
		}
		near := func(what string, got, want time.Duration) {
			t.Helper()
			if d := got - want; max(d, -d) > want/1000+2 {
				t.Errorf("%s: %s takes %v, want %v", name, what, got, want)
			}
		}
		seen := map[string]bool{}
		for _, ran := range c.pace.ran {
			var depth, n, rows int
			fmt.Sscan(ran, &depth, &n, &rows)
			seen[ran] = true
			if depth == 0 {
				near("a pass "+ran, cost.Estimate(sched.Shape{Tokens: n, Rows: rows}), c.pace.took(depth, n, rows))
			}
		}
		if c.k.logits && !c.k.reads && seen["0 16 16"] {
			near("a row", cost.Row(), c.pace.row)
		} else {
			near("a row", cost.Row(), 0)
		}
		attended, read := cost.Positions()
		if !seen[fmt.Sprintf("%d 64 1", c.k.at)] || c.k.at == 0 {
			c.pace.attended, c.pace.read = 0, 0 // not measured
		}
		near("a million positions attended to", attended, 1e6*c.pace.attended*63/64) // beyond what one token does
		near("a million positions read", read, 1e6*(c.pace.read+c.pace.attended))
	}
	// A machine that is faster in the middle of a text was measured badly: that costs nothing there.
	var cost sched.Cost
	late := pace{first: 60 * ms, token: us, attended: -1, read: -1}
	if err := (calibration{most: 64, at: 64}).measure(&cost, late.run); err != nil {
		t.Fatal(err)
	}
	if attended, read := cost.Positions(); attended != 0 || read != 0 {
		t.Errorf("positions take %v and %v", attended, read)
	}
	// Whichever pass fails, that is told.
	whole := pace{first: ms}
	k := calibration{most: 256, at: 64, logits: true}
	if err := k.measure(&sched.Cost{}, whole.run); err != nil {
		t.Fatal(err)
	}
	for n := range whole.ran {
		p := pace{first: ms, fails: n + 1}
		if err := k.measure(&sched.Cost{}, p.run); !errors.Is(err, errSlotShort) || len(p.ran) != n+1 {
			t.Errorf("pass %d fails: %v after %d passes", n+1, err, len(p.ran))
		}
	}
}

// The sizes that are timed are those that a model can run: within its batch, its context and its memory.
func TestCalibratedSizes(t *testing.T) {
	block := uint64(open(t, tiny, Config{}).kv.Layout()[0].Bytes)
	for name, c := range map[string]struct {
		path   string
		config Config
		want   calibration
	}{
		"by its context": {tiny, Config{Ctx: 400}, calibration{most: 399, at: 192, logits: true}},
		"by its batch":   {tiny, Config{Ctx: 400, Batch: 40}, calibration{most: 40, at: 192, logits: true}},
		"short":          {tiny, Config{Ctx: 127}, calibration{most: 126, logits: true}},
		"just a block":   {tiny, Config{Ctx: 128}, calibration{most: 127, at: 64, logits: true}},
		"in the middle": {
			tiny, Config{Ctx: 8192, KVBytes: 256 * block}, calibration{most: 512, at: 2048, logits: true},
		},
		"in little memory": {
			tiny, Config{Ctx: 128, Batch: 40, KVBytes: 3 * block}, calibration{most: 40, at: 64, logits: true},
		},
		"whole texts": {
			testdata.Path(t, "archs/bert.gguf"), Config{Ctx: 100, Vectors: true}, calibration{most: 99},
		},
		"an answer": {testdata.Path(t, "archs/t5.gguf"), Config{Ctx: 100}, calibration{most: 99}},
	} {
		c.config.Shared = true
		e := open(t, c.path, c.config)
		l := newLoop(e, LoopConfig{}, sched.Config{Running: e.seqs, Memory: e.kv.Layout()}) // runs no pass of its own
		if got := l.calibration(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		for _, depth := range []int{0, c.want.at} {
			if took, err := l.timed(depth, min(c.want.most, 20), 1); err != nil || took <= 0 {
				t.Errorf("%s: a pass after %d positions takes %v, %v", name, depth, took, err)
			}
		}
		if l.e.kv.Available() != l.e.kv.Limit() {
			t.Errorf("%s: %d of %d bytes are free", name, l.e.kv.Available(), l.e.kv.Limit())
		}
	}
}
