package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func newHealthCommand() *cobra.Command {
	var (
		f       clientFlags
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Report by exit status whether a server is ready",
		Long: `Report by exit status whether a server is ready: 0 if its /readyz says so. It serves
health checks of containers, which contain no other program.`,
		Example: `  quern health --port 9000 && echo ready`,
		Args:    flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := context.WithTimeout(cmd.Context(), timeout)
			defer stop()
			return f.ready(ctx)
		},
	}
	f.define(cmd.Flags())
	secondsVar(cmd.Flags(), &timeout, "timeout", 2*time.Second, "maximum `TIME` to wait for the answer")
	return cmd
}

// ready returns an error unless the server is.
func (f *clientFlags) ready(ctx context.Context) error {
	r, where, err := f.get(ctx, "/readyz")
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in time from the server at %s; --timeout gives it longer", where)
	}
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("the server at %s answers %s with %s", where, r.Request.URL.Path, r.Status)
	}
	return nil
}
