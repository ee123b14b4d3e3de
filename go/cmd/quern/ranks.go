package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/verify"
)

// rankFlags say among which processes a model is divided.
type rankFlags struct {
	where string
	split string
	by    string // rows, layers, auto
	token tokenFlag

	threads int      // that are ranks
	others  []string // addresses of ranks that wait for this process; those of an MPI job, and those that join, have none
	gather  string   // the address at which others join
	count   int      // how many
	shares  []int    // how much each computes
}

func (f *rankFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.where, "ranks", "", "`RANKS` that the model of -m is divided among: host:port,host:port of processes that wait (quern-cluster rank --listen), 4@:9100 for four of which three join at that address (rank --join), lws for the pods of a LeaderWorkerSet, mpi for the processes of the MPI job that this one is of (bin/quern-mpi), or a number of threads of this process, to try it out (default: it is not divided)")
	fs.StringVar(&f.split, "rank-split", "", "how much of the model each rank computes in relation to the others, such as `3,2` (default: all the same)")
	choiceVar(fs, &f.by, "split", "rows", []string{"rows", "layers", "auto"}, "what ranks have of a model that is divided: rows, some of each matrix, which makes all passes faster on a fast network; layers, some of them as a whole, which makes prompts faster on a slow one; auto, what is predicted to be faster")
	f.token.define(fs)
}

// check reads the flags.
func (f *rankFlags) check() error {
	if f.where == "" {
		if f.split != "" {
			return usagef("--rank-split is for a model that is divided; give --ranks")
		}
		if f.by != "rows" {
			return usagef("--split is for a model that is divided; give --ranks")
		}
		if f.token.path != "" {
			return usagef("--rank-token-file is for ranks on other machines; give --ranks")
		}
		return nil
	}
	if err := f.place(); err != nil {
		return err
	}
	if f.split == "" {
		return nil
	}
	for _, part := range strings.Split(f.split, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return usagef("--rank-split %q, want a number of 1 or more for each rank, with commas between them", f.split)
		}
		f.shares = append(f.shares, n)
	}
	return nil
}

// place reads where the other ranks are.
func (f *rankFlags) place() error {
	if f.where == lws {
		n, err := lwsSize()
		if err != nil {
			return err
		}
		f.where = fmt.Sprintf("%d@:%s", n, lwsPort)
	}
	count, address, gather := strings.Cut(f.where, "@")
	switch n, err := strconv.Atoi(count); {
	case f.where == "mpi":
	case gather && err == nil && n >= 2 && n <= kernel.MaxRanks && isAddress(address):
		f.gather, f.count = address, n-1
	case err == nil && !gather && n >= 2 && n <= kernel.MaxRanks:
		f.threads = n
	case err != nil && !gather && strings.Contains(f.where, ":"):
		f.others = strings.Split(f.where, ",")
		for i, a := range f.others {
			if !isAddress(a) || strings.HasPrefix(a, ":") || i+1 >= kernel.MaxRanks || slices.Contains(f.others[:i], a) {
				return usagef("--ranks %q, want host:port of each other rank, %d at most, with commas between them", f.where, kernel.MaxRanks-1)
			}
		}
	default:
		return usagef("--ranks %q, want host:port,host:port, a number and an address such as 4@:9100, mpi, or a number from 2 to %d", f.where, kernel.MaxRanks)
	}
	if f.apart() && !kernel.HasUCX {
		return usagef("--ranks %s: %w", f.where, kernel.ErrNoUCX)
	}
	if !f.apart() && f.token.path != "" {
		return usagef("--rank-token-file is for ranks on other machines; give their addresses with --ranks")
	}
	return nil
}

// apart reports whether the other ranks are joined by their addresses.
func (f *rankFlags) apart() bool { return len(f.others) > 0 || f.gather != "" }

// rankVersion is what programs have in common that can be ranks of a model.
func rankVersion() string { return readBuild().Version + " " + verify.Profile() }

// join returns this process's ranks, and a function that ends them, with the error that the process ends with. Without
// --ranks there are none. asked is called when another rank is to end, and this one with it.
func (f *rankFlags) join(ctx context.Context, open engine.Opener, d launch.DeviceSettings, logs zerolog.Logger, asked func()) (r *engine.Ranks, leave func(error), err error) {
	if f.where == "" {
		return nil, func(error) {}, nil
	}
	var once sync.Once
	lost := func(err error) {
		once.Do(func() {
			logs.Error().Err(err).Msg("a rank of the model is lost: the server ends, to be started anew with all of them")
			time.AfterFunc(time.Second, func() { os.Exit(exitLost) }) // until then requests are told
		})
	}
	if f.apart() {
		return f.gathered(ctx, logs, lost, asked)
	}
	if f.threads > 0 {
		s, err := d.Config()
		if err != nil {
			return nil, nil, err
		}
		r, wait, err := engine.InThreads(ctx, open, s, f.threads)
		if err != nil {
			return nil, nil, err
		}
		r.Lost = lost
		f.divide(r, logs)
		return r, func(error) {
			if err := wait(); err != nil && !errors.Is(err, engine.ErrRanks) {
				logs.Error().Err(err).Msg("a rank has failed")
			}
		}, nil
	}
	g, err := kernel.MPIRanks()
	if err != nil {
		return nil, nil, usagef("--ranks mpi: %w", err)
	}
	if g.Count() < 2 {
		g.Close()
		return nil, nil, usagef("--ranks mpi: the job has one process; start it as mpirun -np 2 quern-mpi ..., or by srun")
	}
	r = &engine.Ranks{Ranks: model.Ranks{Group: g}, Version: rankVersion(), Lost: lost}
	f.divide(r, logs)
	return r, func(err error) {
		if err != nil || !r.Dismiss() {
			return // MPI_Finalize would wait for ranks that go on. A process that ends without it ends the job
		}
		g.Close()
	}, nil
}

// divide says how ranks divide the model, and has the log say what comes of it.
func (f *rankFlags) divide(r *engine.Ranks, logs zerolog.Logger) {
	r.Shares, r.Layers, r.Choose = f.shares, f.by == "layers", f.by == "auto"
	r.Chosen = func(p model.Prediction, n model.Network) {
		logs.Info().Str("exchanges", n.String()).Msgf("the model is divided by %s", p)
	}
	r.Slow = func(s model.Slow) {
		split := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Shares), " ", ","), "[]")
		logs.Warn().Int("rank", s.Rank).Str("rank_split", split).
			Msgf("the other ranks wait for rank %d in %.0f %% of their passes' time; --rank-split %s would balance them", s.Rank, 100*s.Waits, split)
	}
}

// signals returns contexts that the first and the second SIGTERM or Ctrl-C end.
func signals(ctx context.Context) (first, second context.Context, stop func()) {
	come := make(chan os.Signal, 2)
	signal.Notify(come, os.Interrupt, syscall.SIGTERM)
	first, one := context.WithCancel(ctx)
	second, two := context.WithCancelCause(ctx)
	go func() {
		for _, end := range []func(){one, func() { two(errSecond) }} {
			select {
			case <-come:
				end()
			case <-second.Done():
				return
			}
		}
	}()
	return first, second, func() { signal.Stop(come); one(); two(nil) }
}

// follow has this process compute its part of the model until rank 0 ends, or now does, whose cause it returns. The end of
// first is rank 0's to follow, which lets requests finish: asked, if it is not nil, tells it.
func follow(first, now context.Context, open engine.Opener, d launch.DeviceSettings, r engine.Ranks, logs zerolog.Logger, asked func()) error {
	c, err := d.Config()
	if err != nil {
		return engine.Decline(r, err)
	}
	defer context.AfterFunc(first, func() {
		if asked != nil {
			asked()
		}
		logs.Info().Msg("rank 0 ends this rank when its requests are done; another signal ends it now")
	})()
	err = engine.Follow(now, open, c, r, func(bytes uint64) {
		logs.Info().Int("rank", r.Group.Rank()).Int("ranks", r.Group.Count()).Str("weights", mem.FormatBytes(bytes)).Msg("rank has its part of the model")
	})
	if why := context.Cause(now); errors.Is(err, context.Canceled) && why != nil {
		return why
	}
	return err
}
