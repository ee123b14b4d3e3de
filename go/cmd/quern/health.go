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
		f       psFlags
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Tell by the exit status whether a server is ready",
		Long: `Tell by the exit status whether a server is ready: 0 where its /readyz says so. It is
for health checks of containers, which have no other program in them.`,
		Example: `  quern health --port 9000 && echo ready`,
		Args:    flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := context.WithTimeout(cmd.Context(), timeout)
			defer stop()
			return f.ready(ctx)
		},
	}
	f.defineServer(cmd.Flags())
	durationVar(cmd.Flags(), &timeout, "timeout", 2*time.Second, "`TIME` to wait for the answer")
	return cmd
}

// ready returns an error unless the server is.
func (f *psFlags) ready(ctx context.Context) error {
	base, transport, err := f.base()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s/readyz: no answer in time", base)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/readyz: %s", base, resp.Status)
	}
	return nil
}
