package finetune_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train"
)

// asRanks calls do for each of n ranks, which are goroutines, and returns what rank 0 made.
func asRanks(t *testing.T, n int, do func(g *kernel.Ranks) (*finetune.Job, error)) *finetune.Job {
	t.Helper()
	groups, err := kernel.ThreadRanks(n)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		rank int
		job  *finetune.Job
		err  error
	}
	all := make(chan result)
	for _, g := range groups {
		go func() {
			defer g.Close()
			j, err := do(g)
			all <- result{g.Rank(), j, err}
		}()
	}
	var first *finetune.Job
	for range n {
		r := <-all
		if r.err != nil {
			t.Errorf("rank %d: %v", r.rank, r.err)
		}
		if r.rank == 0 {
			first = r.job
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return first
}

func ofRanks() finetune.Settings {
	s := small()
	s.Batch, s.Context, s.Share = 512, 64, 0.3 // of which 8 chunks are steps
	return s
}

// Ranks make the adapter and the history of one process, also after one of them was interrupted, where rank 0 alone has the
// checkpoint.
func TestRanksMakeTheSame(t *testing.T) {
	whole, err := open(t, 1, 1<<30, ofRanks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Run(t.Context(), finetune.Events{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 3} {
		path := filepath.Join(t.TempDir(), "checkpoint")
		asRanks(t, n, func(g *kernel.Ranks) (*finetune.Job, error) {
			j, err := openAmong(t, g, 1, 1<<30, ofRanks(), nil)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err = j.Run(ctx, finetune.Events{Step: func(s train.Step) {
				if s.Number == 3 && g.Rank() == n-1 {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) && !errors.Is(err, model.ErrStopped) || j.Taken() != 3 {
				return nil, fmt.Errorf("after %d steps: %w", j.Taken(), err)
			}
			if g.Rank() == 0 {
				return j, j.Save(path, time.Unix(1e9, 0))
			}
			return j, nil
		})
		c, err := finetune.OpenCheckpoint(path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		first := asRanks(t, n, func(g *kernel.Ranks) (*finetune.Job, error) {
			change := c.Plan
			if g.Rank() > 0 {
				change = nil
			}
			j, err := openAmong(t, g, 1, 1<<30, ofRanks(), change)
			if err == nil && g.Rank() == 0 {
				err = j.Restore(c)
			}
			if err == nil {
				err = j.Run(t.Context(), finetune.Events{})
			}
			return j, err
		})
		if !bytes.Equal(written(t, first), written(t, whole)) || !reflect.DeepEqual(first.Points, whole.Points) {
			t.Errorf("%d ranks make something else", n)
		}
	}
}

// Where a rank has less memory, chunks are smaller on all.
func TestRanksHaveTheSameChunks(t *testing.T) {
	s := small()
	s.Batch = 4096
	alone, err := open(t, 1, 1<<30, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	need := alone.Size().Memory - alone.Size().Kept
	first := asRanks(t, 2, func(g *kernel.Ranks) (*finetune.Job, error) {
		memory := uint64(1 << 30)
		if g.Rank() == 1 {
			memory = need * 3 / 8
		}
		j, err := openAmong(t, g, 1, memory, s, nil)
		if err == nil {
			err = j.Run(t.Context(), finetune.Events{})
		}
		return j, err
	})
	if first.MaxTokens >= alone.MaxTokens/2 || first.Config.Chunks < 4 {
		t.Errorf("chunks of %d tokens, %d in a step; alone %d", first.MaxTokens, first.Config.Chunks, alone.MaxTokens)
	}
}

func TestStepsTooSmallForRanks(t *testing.T) {
	s := small()
	s.Batch, s.Context = 64, 64
	asRanks(t, 2, func(g *kernel.Ranks) (*finetune.Job, error) {
		if _, err := openAmong(t, g, 1, 1<<30, s, nil); err == nil || !strings.Contains(err.Error(), "no work for 2 ranks") {
			return nil, fmt.Errorf("a step of 64 tokens: %w", err)
		}
		return nil, nil
	})
}
