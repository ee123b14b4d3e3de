package main

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train"
)

// checkRanks refuses what ranks do not do together.
func (f *finetuneFlags) checkRanks() error {
	switch {
	case f.ranks == "":
	case f.ranks != "mpi":
		return usagef("--ranks %q, want mpi", f.ranks)
	case f.dryRun:
		return usagef("--dry-run: one process is enough; leave out --ranks")
	case f.settings.Weights != "":
		return usagef("--ranks: all weights are trained by one process; ranks train adapters")
	}
	return nil
}

// join returns this process's place among those that train together; nil: it is alone.
func (f *finetuneFlags) join() (*kernel.Ranks, error) {
	if f.ranks == "" {
		return nil, nil
	}
	g, err := kernel.MPIRanks()
	if err != nil {
		return nil, usagef("--ranks mpi: %w", err)
	}
	if g.Count() < 2 {
		g.Close()
		return nil, usagef("--ranks mpi: the job has one process; start it as mpirun -np 2 quern-mpi ..., or by srun")
	}
	return g, nil
}

// leaveRanks ends this process's part in order where the others end as well: the end of MPI waits for all of them. A process that
// ends without it ends the job.
func leaveRanks(g *kernel.Ranks, err error) {
	if g != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, model.ErrNotFinite)) {
		g.Close()
	}
}

// follows reports whether another process has the results.
func follows(g *kernel.Ranks) bool { return g != nil && g.Rank() > 0 }

// sameTime returns rank 0's time, which templates may write.
func sameTime(g *kernel.Ranks, now time.Time) (time.Time, error) {
	switch {
	case g == nil:
		return now, nil
	case g.Rank() == 0:
		return now, g.Send(kernel.Everyone, binary.LittleEndian.AppendUint64(nil, uint64(now.UnixNano())))
	}
	b, err := g.Recv(0, make([]byte, 8), train.Patience)
	if err != nil || len(b) != 8 {
		return now, errors.Join(err, errors.New("rank 0 has said no time"))
	}
	return time.Unix(0, int64(binary.LittleEndian.Uint64(b))), nil
}

// trainAlong takes steps with rank 0, which says how they are, and ends with it.
func trainAlong(ctx context.Context, job *finetune.Job) error {
	if err := job.Run(ctx, finetune.Events{}); !errors.Is(err, model.ErrStopped) {
		return err
	}
	return nil
}
