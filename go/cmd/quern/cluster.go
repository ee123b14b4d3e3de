package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/ranks"
)

// A tokenFlag names the file with what all ranks of a group know.
type tokenFlag struct{ path string }

func (f *tokenFlag) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, "rank-token-file", "", "`FILE` with a secret that all ranks have, which prove it to each other when they join (default: whoever reaches the port may join)")
}

// read returns the token, without the white space around it; nil: there is none.
func (f *tokenFlag) read() ([]byte, error) {
	if f.path == "" {
		return nil, nil
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, usagef("--rank-token-file: %w", err)
	}
	defer file.Close()
	const most = 4096
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, usagef("--rank-token-file: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) < 16 || len(text) > most {
		return nil, usagef("--rank-token-file %s has %d bytes, want 16 to %d, such as of \"openssl rand -hex 32\"", f.path, len(text), most)
	}
	return text, nil
}

// isAddress reports whether a text is host:port, or :port.
func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	n, number := strconv.Atoi(port)
	return err == nil && number == nil && n > 0 && n < 1<<16
}

// A union is this process among ranks that are joined by UCX.
type union struct {
	lines *ranks.Group
	group *kernel.Ranks
}

// unite joins other processes, which `by` finds. note is called with who is waited for.
func (f *tokenFlag) unite(note func(line string), by func(ranks.Config) (*ranks.Group, error)) (u union, err error) {
	token, err := f.read()
	if err != nil {
		return u, err
	}
	var ucx *kernel.UCX
	c := ranks.Config{
		Version: rankVersion(), Token: token, Note: note,
		Open: func(devices []string) ([]byte, error) {
			if ucx != nil {
				ucx.Close()
			}
			var err error
			if ucx, err = kernel.OpenUCX(devices); err != nil {
				return nil, err
			}
			return ucx.Address(), nil
		},
	}
	if u.lines, err = by(c); err != nil {
		return u, err
	}
	u.group, err = ucx.Join(u.lines.Rank, u.lines.Addresses, u.lines.Near)
	return u, err
}

// leave ends this process's part, in order unless there is an error. The others notice that it ends, and get the reason
// where that is its own.
func (u union) leave(err error) {
	switch {
	case err == nil:
		u.lines.Unwatch()
		u.group.Close() // what was sent arrives before the line says that this process has ended
		u.lines.Close()
	case !errors.Is(err, kernel.ErrRanks):
		u.lines.Fail(err)
	}
}

// united joins the ranks that the flags name by their addresses, of which this process is rank 0.
func (f *rankFlags) united(ctx context.Context, note func(line string)) (union, error) {
	u, err := f.token.unite(note, func(c ranks.Config) (*ranks.Group, error) {
		if f.gather != "" {
			return ranks.Gather(ctx, c, f.gather, f.count)
		}
		return ranks.Dial(ctx, c, f.others)
	})
	if err != nil {
		return u, fmt.Errorf("--ranks: %w", err)
	}
	return u, nil
}

// inform logs lines for operators.
func inform(logs zerolog.Logger) func(line string) {
	return func(line string) { logs.Info().Msg(line) }
}

// gathered is join for ranks that are joined by their addresses.
func (f *rankFlags) gathered(ctx context.Context, logs zerolog.Logger, lost func(error), asked func()) (*engine.Ranks, func(error), error) {
	u, err := f.united(ctx, inform(logs))
	if err != nil {
		return nil, nil, err
	}
	logs.Info().Int("ranks", u.group.Count()).Msg("all ranks have joined")
	u.lines.Watch(func(err error) {
		u.group.Break() // a pass that waits
		lost(err)
	}, func(rank int) {
		logs.Info().Int("rank", rank).Msg("a rank is asked to end: the server ends as for SIGTERM")
		asked()
	}, nil)
	r := &engine.Ranks{Ranks: model.Ranks{Group: u.group}, Version: rankVersion(), Lost: lost}
	f.divide(r, logs)
	return r, func(err error) {
		if err == nil && !r.Dismiss() {
			u.lines.Close() // who still loads a model uses the group until the process ends
			return
		}
		u.leave(err)
	}, nil
}

// followFlags are the flags of "quern rank".
type followFlags struct {
	deviceFlags
	model  string
	draft  string
	listen string
	join   string
	token  tokenFlag
	log    logFlags
}

func newRankCommand() *cobra.Command {
	var f followFlags
	cmd := &cobra.Command{
		Use:   "rank",
		Short: "Compute a part of a model that a server on another machine serves",
		Long: `Compute a part of a model that is divided among machines. Rank 0 is the server,
"quern serve --ranks"; the other processes are this command, with the same file. It
waits for rank 0 at --listen, or joins it at --join, and ends with it.

The exit code is 0 where the server has ended in order, and 70 where another rank
is lost: then all have to be started anew. SIGTERM has rank 0 end its requests, and
then all ranks; a second one ends this process, with 130.

The program that reaches other machines is bin/quern-cluster ("make cluster").`,
		Example: `  quern-cluster rank --listen :9100 -m model.gguf
  quern-cluster serve --ranks b:9100,c:9100 -m model.gguf

  quern-cluster serve --ranks 3@:9100 -m model.gguf
  quern-cluster rank --join a:9100 -m model.gguf`,
		Args: flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	modelVar(fs, &f.model, "GGUF `FILE`, the same as rank 0's; demo is the embedded demo model")
	fs.StringVar(&f.draft, "model-draft", "", "`FILE` of a draft head, the same as rank 0's, if that has one")
	fs.StringVar(&f.listen, "listen", "", "`ADDRESS` to wait at for rank 0, such as :9100")
	fs.StringVar(&f.join, "join", "", "`ADDRESS` of rank 0, such as a:9100 (lws: the leader of the LeaderWorkerSet that this pod is of), which has \"serve --ranks 3@:9100\"")
	f.token.define(fs)
	f.defineThreads(fs)
	f.defineLimit(fs)
	f.log.define(fs)
	return cmd
}

// check reads the flags.
func (f *followFlags) check() error {
	if f.join == lws {
		var err error
		if f.join, err = lwsLeader(); err != nil {
			return err
		}
	}
	switch {
	case f.model == "":
		return usagef("-m is missing: name the file that rank 0 has")
	case (f.listen == "") == (f.join == ""):
		return usagef("want --listen with the address to wait at, or --join with that of rank 0")
	case f.listen != "" && !isAddress(f.listen):
		return usagef("--listen %q, want an address such as :9100", f.listen)
	case f.join != "" && !isAddress(f.join):
		return usagef("--join %q, want host:port", f.join)
	case !kernel.HasUCX:
		return usagef("rank: %w", kernel.ErrNoUCX)
	}
	return nil
}

// run implements "quern rank".
func (f *followFlags) run(ctx context.Context, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	logs, closeLog, err := f.log.open(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	if _, err := f.device().Config(); err != nil {
		return err
	}
	open := newFiles().Opener(f.model, launch.Draft{Path: f.draft})
	file, err := open(f.draft != "") // before others wait for it
	if err != nil {
		return err
	}
	file.Close()
	first, now, stop := signals(ctx)
	defer stop()
	u, err := f.token.unite(inform(logs), func(c ranks.Config) (*ranks.Group, error) {
		if f.join != "" {
			return ranks.Join(first, c, f.join)
		}
		return ranks.Wait(first, c, f.listen)
	})
	switch {
	case err != nil && first.Err() != nil:
		return nil // nobody has begun anything
	case err != nil:
		return err
	}
	logs.Info().Int("rank", u.lines.Rank).Int("ranks", u.lines.Count()).Msg("all ranks have joined")
	return u.follow(first, now, open, f.device(), logs)
}

// errOver reports that rank 0 has ended in order.
var errOver = errors.New("rank 0 has ended in order")

// lineTime is how long the transport and the line to rank 0 wait for each other: both tell the end of rank 0, either first.
const lineTime = 2 * time.Second

// follow computes this process's part of a model until rank 0 ends in order, which is no error, or is lost.
func (u union) follow(first, now context.Context, open engine.Opener, d launch.DeviceSettings, logs zerolog.Logger) error {
	now, stop := context.WithCancelCause(now)
	defer stop(nil)
	over := make(chan struct{})
	u.lines.Watch(func(err error) {
		stop(fmt.Errorf("%w (%w)", err, kernel.ErrRanks)) // what is being loaded
		u.group.Break()
	}, nil, func() {
		close(over)
		time.AfterFunc(lineTime, func() { stop(errOver) }) // it may have said nothing by the transport: see gathered
	})
	err := follow(first, now, open, d, engine.Ranks{Ranks: model.Ranks{Group: u.group}, Version: rankVersion()}, logs, u.lines.Leave)
	if errors.Is(err, kernel.ErrRanks) { // the line says more
		select {
		case <-over:
			err = nil
		case <-now.Done():
			err = context.Cause(now)
		case <-time.After(lineTime):
		}
	}
	if errors.Is(err, errOver) {
		err = nil
	}
	if err == nil { // others may not have heard of it yet, and would take the end of this process for a loss
		u.stay(now, over)
	}
	u.leave(err)
	return err
}

// stay waits until rank 0's line says that it has ended, and takes part in the transport, which may need this process to
// deliver what rank 0 has sent.
func (u union) stay(now context.Context, over <-chan struct{}) {
	var room [64]byte
	for end := time.Now().Add(lineTime); time.Now().Before(end); {
		_, err := u.group.Recv(0, room[:], 10*time.Millisecond)
		wait := time.Duration(0)
		if err != nil && !errors.Is(err, kernel.ErrSilent) { // there is no transport any more
			wait = time.Until(end)
		}
		select {
		case <-over:
			return
		case <-now.Done():
			return
		case <-time.After(wait):
		}
	}
}
