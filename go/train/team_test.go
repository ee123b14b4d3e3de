package train_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train"
)

// asTeam opens n benches whose runs are ranks of a group, and has each rank do something.
func asTeam(t *testing.T, n int, c func(rank int) train.Config, texts func(b *bench) []model.Text, do func(rank int, b *bench, g *kernel.Ranks) error) []*bench {
	t.Helper()
	groups, err := kernel.ThreadRanks(n)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*bench, n)
	for i := range all {
		all[i] = open(t, 1+i%2, c(i), texts)
	}
	errs := make(chan error)
	for i, b := range all {
		go func() {
			defer groups[i].Close()
			err := do(i, b, groups[i])
			if err != nil {
				err = fmt.Errorf("rank %d: %w", i, err)
			}
			errs <- err
		}()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	return all
}

// However many ranks there are, and chunks of a step, all have the adapter, the losses and the norms of a run that is alone.
func TestRanksMakeTheSameAdapter(t *testing.T) {
	for _, chunks := range []int{4, 5, 7} {
		c := train.Config{Steps: 4, Chunks: chunks, Rate: 0.01, Warmup: 1, Clip: 0.5, Decay: 0.1, Seed: 5}
		alone := open(t, 2, c, byHeart)
		var want []train.Step
		for range c.Steps {
			s, err := alone.Next(nil)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, s)
		}
		loss, err := alone.Loss(byHeart(alone), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ranks := range []int{1, 2, 3, 4} {
			all := asTeam(t, ranks, func(int) train.Config { return c }, byHeart, func(rank int, b *bench, g *kernel.Ranks) error {
				if err := b.Join(g); err != nil {
					return err
				}
				for i := range c.Steps {
					if s, err := b.Next(nil); err != nil || s != want[i] {
						return fmt.Errorf("step %+v, %w, want %+v", s, err, want[i])
					}
				}
				if got, err := b.Loss(byHeart(b), nil); err != nil || got != loss {
					return fmt.Errorf("loss %v, %w, want %v", got, err, loss)
				}
				return nil
			})
			for rank, b := range all {
				if !bytes.Equal(written(t, b), written(t, alone)) {
					t.Errorf("%d chunks, rank %d of %d: another adapter", chunks, rank, ranks)
				}
			}
		}
	}
}

// Rank 0's state is that of all: what the others were at does not count.
func TestRanksGoOnFromOneState(t *testing.T) {
	c := train.Config{Steps: 5, Chunks: 3, Rate: 0.01, Seed: 5}
	alone := open(t, 1, c, byHeart)
	steps(t, alone, 2)
	all := asTeam(t, 2, func(int) train.Config { return c }, byHeart, func(rank int, b *bench, g *kernel.Ranks) error {
		if rank == 0 {
			if err := b.Restore(alone.State()); err != nil {
				return err
			}
		} else if _, err := b.Next(nil); err != nil {
			return err
		}
		if err := b.Join(g); err != nil {
			return err
		}
		if err := b.Restore(b.State()); err == nil {
			return errors.New("one rank alone took another state")
		}
		for range 3 {
			if _, err := b.Next(nil); err != nil {
				return err
			}
		}
		return nil
	})
	steps(t, alone, 3)
	for rank, b := range all {
		if !bytes.Equal(written(t, b), written(t, alone)) {
			t.Errorf("rank %d: another adapter", rank)
		}
	}
}

// What stops or harms one rank does so to all, and they go on together.
func TestRanksFailTogether(t *testing.T) {
	c := train.Config{Steps: 3, Chunks: 4, Rate: 0.01, Seed: 5}
	alone := open(t, 1, c, byHeart)
	steps(t, alone, 3)
	all := asTeam(t, 2, func(int) train.Config { return c }, byHeart, func(rank int, b *bench, g *kernel.Ranks) error {
		if err := b.Join(g); err != nil {
			return err
		}
		var stop kernel.Stop
		if rank == 1 {
			stop.Set()
		}
		if _, err := b.Next(&stop); !errors.Is(err, model.ErrStopped) {
			return fmt.Errorf("rank 1 is stopped: %w", err)
		}
		x := byHeart(b)
		if rank == 1 {
			x[9].Tokens = slices.Clone(x[9].Tokens)
			x[9].Tokens[2] = -1
		}
		if _, err := b.Loss(x, nil); err == nil || strings.Contains(err.Error(), "rank 1") != (rank == 0) || strings.Contains(err.Error(), "\n") {
			return fmt.Errorf("a text of rank 1 is bad: %w", err)
		}
		for range c.Steps {
			if _, err := b.Next(nil); err != nil {
				return err
			}
		}
		return nil
	})
	for rank, b := range all {
		if !bytes.Equal(written(t, b), written(t, alone)) {
			t.Errorf("rank %d: another adapter", rank)
		}
	}
}

// A loss that is no number on one rank is so on all.
func TestRanksHaveOneLossThatIsNoNumber(t *testing.T) {
	c := train.Config{Steps: 3, Chunks: 2, Rate: 0.01}
	asTeam(t, 2, func(int) train.Config { return c }, byHeart, func(rank int, b *bench, g *kernel.Ranks) error {
		if err := b.Join(g); err != nil {
			return err
		}
		if rank == 1 {
			for i := range b.State().Numbers {
				b.State().Numbers[i] = 1e30
			}
			if err := b.trainer.Adapter.Moved(b.pool); err != nil {
				return err
			}
		}
		if _, err := b.Next(nil); !errors.Is(err, model.ErrNotFinite) {
			return fmt.Errorf("want that a loss is not finite: %w", err)
		}
		return nil
	})
}

func TestRanksThatDoNotFit(t *testing.T) {
	c := func(rank int) train.Config { return train.Config{Steps: 3, Chunks: 2, Rate: 0.01, Seed: uint64(rank)} }
	asTeam(t, 2, c, byHeart, func(_ int, b *bench, g *kernel.Ranks) error {
		if err := b.Join(g); err == nil || !strings.Contains(err.Error(), "rank 1 has another") {
			return fmt.Errorf("another seed: %w", err)
		}
		return nil
	})
	asTeam(t, 3, c, byHeart, func(_ int, b *bench, g *kernel.Ranks) error {
		if err := b.Join(g); err == nil || !strings.Contains(err.Error(), "no work for 3 ranks") {
			return fmt.Errorf("2 chunks for 3 ranks: %w", err)
		}
		return nil
	})
}

// Without another rank the run is over.
func TestARankIsLost(t *testing.T) {
	c := train.Config{Steps: 3, Chunks: 2, Rate: 0.01}
	asTeam(t, 2, func(int) train.Config { return c }, byHeart, func(rank int, b *bench, g *kernel.Ranks) error {
		if err := b.Join(g); err != nil || rank == 1 {
			return err // and it leaves
		}
		_, first := b.Next(nil)
		_, again := b.Next(nil)
		for _, err := range []error{first, again} {
			if !errors.Is(err, kernel.ErrRanks) || strings.Contains(err.Error(), "\n") {
				return fmt.Errorf("rank 1 has left: %w", err)
			}
		}
		return nil
	})
}
