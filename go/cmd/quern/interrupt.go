package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// interruptible has Ctrl-C and SIGTERM cancel the context of a command that writes files, so that it removes what is half
// written before it ends. The second signal has its default effect.
func interruptible(run func(cmd *cobra.Command, args []string) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop)
		cmd.SetContext(ctx)
		return run(cmd, args)
	}
}

// An endedWriter writes until a context is done, in pieces, so that it ends soon.
type endedWriter struct {
	ctx context.Context
	out io.Writer
}

func (w endedWriter) Write(b []byte) (n int, err error) {
	const most = 16 << 20
	for len(b) > 0 && err == nil {
		if err = w.ctx.Err(); err != nil {
			break
		}
		var k int
		k, err = w.out.Write(b[:min(len(b), most)])
		n, b = n+k, b[k:]
	}
	return n, err
}
