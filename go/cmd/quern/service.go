package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/platform"
)

// serviceFlags are the flags of all commands about a service.
type serviceFlags struct{ name string }

func newServiceCommand() *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Have Windows run a server as a service",
		Long: `Have Windows run a server as a service: it starts with the machine, before anybody
logs on, and again after a failure. It is for administrators. On Linux systemd does
so: see scripts/deploy.

What follows "install" is the command that the service runs, in the folder where it
was installed. The service runs as the account "NT SERVICE\NAME", which has few rights:
it has to be let read the models. Why it did not start is in the log of events
(Application), with its name as the source; what it does is in the file of --log-file.
"stop" and the machine's shutdown let running requests finish within --drain. Keys are
given with --api-key-file, or hashed: every user of the machine can read the command.`,
		Example: `  quern service install serve -m D:\models\model.gguf --log-file D:\quern\log.jsonl
  icacls D:\models /grant "NT SERVICE\quern:(OI)(CI)RX"
  icacls D:\quern /grant "NT SERVICE\quern:(OI)(CI)M"
  quern service start
  quern service status
  quern service stop
  quern service remove`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	install := &cobra.Command{
		Use: "install serve FLAGS...", Short: "Add a service that runs a command", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return f.install(args) },
	}
	install.Flags().SetInterspersed(false)
	run := &cobra.Command{
		Use: "run NAME FOLDER serve FLAGS...", Short: "What the service manager runs", Hidden: true, Args: cobra.MinimumNArgs(3),
		RunE: func(_ *cobra.Command, args []string) error { return runService(args[0], args[1], args[2:]) },
	}
	run.Flags().SetInterspersed(false)
	one := func(use, short string, do func(context.Context, platform.Services, io.Writer) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: flagsAlone, RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			m, err := services()
			if err != nil {
				return err
			}
			defer m.Close()
			if err := f.ours(m); err != nil {
				return err
			}
			return do(ctx, m, cmd.OutOrStdout())
		}}
	}
	for _, sub := range []*cobra.Command{
		install,
		one("remove", "Stop the service and remove it", f.remove),
		one("start", "Start the service, and wait until it is ready", f.start),
		one("stop", "Have the service end in order, and wait for that", f.stop),
		one("status", "Say how the service is", f.status),
	} {
		sub.Flags().StringVar(&f.name, "name", "quern", "`NAME` of the service")
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(run)
	return cmd
}

// services connects to the service manager.
func services() (platform.Services, error) {
	m, err := platform.OpenServices()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, usagef("services of this kind are Windows'; for systemd there are units in scripts/deploy")
	}
	return m, err
}

// install adds a service that runs a command line of this program.
func (f *serviceFlags) install(args []string) error {
	m, err := services()
	if err != nil {
		return err
	}
	defer m.Close()
	ending, err := servable(args)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	return m.Install(platform.Service{
		Name: f.name, Title: "Quern language model server (" + f.name + ")", About: "Serves language models over HTTP.",
		Program: program, Args: slices.Concat(runs(f.name), []string{folder}, args), Ending: ending,
	})
}

// runs begins the arguments of each service that install adds.
func runs(name string) []string { return []string{"service", "run", name} }

// ours refuses a service that is there and was not added by install: the manager would stop and remove any of the machine's.
func (f *serviceFlags) ours(m platform.Services) error {
	command, err := m.Command(f.name)
	if err != nil {
		return err
	}
	if want := runs(f.name); len(command) <= len(want) || !slices.EqualFunc(command[1:len(want)+1], want, strings.EqualFold) {
		return usagef("--name: the service %q is another program's, want one of \"quern service install\"", f.name)
	}
	return nil
}

// servable returns what is wrong with the command line of a service, as far as its flags say, and how long its end may take.
func servable(args []string) (ending time.Duration, err error) {
	root := newRootCommand()
	if args[0] != "serve" {
		return 0, usagef("%.80q: a service runs \"serve\" and its flags", args[0])
	}
	if args, err = prepare(root, args); err != nil {
		return 0, err
	}
	if keyInArguments(args) {
		return 0, usagef("--api-key: every user of this machine can read the command of a service; give keys with --api-key-file, or as sha256: and the hash")
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return 0, usagef("%w", err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return 0, cmd.FlagErrorFunc()(cmd, err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return 0, err
	}
	if err := checkFlags(cmd.Flags()); err != nil {
		return 0, err
	}
	ending = lastTime
	for _, name := range []string{"drain-delay", "drain"} {
		ending += time.Duration(*cmd.Flags().Lookup(name).Value.(*secondsValue))
	}
	return ending, nil
}

// runService is this process as a service. The folder is where it was installed: the manager starts services in the system's.
func runService(name, folder string, args []string) error {
	return platform.RunService(name, func(failures io.Writer) int {
		if err := os.Chdir(folder); err != nil {
			fmt.Fprintf(failures, "quern: the folder in which the service was installed: %v\n", err)
			return exitFailure
		}
		return execute(args, failures)
	})
}

func (f *serviceFlags) start(ctx context.Context, m platform.Services, out io.Writer) error {
	if err := m.Start(f.name); err != nil {
		return err
	}
	s, err := f.settled(ctx, m)
	if err == nil && !s.Running {
		return fmt.Errorf("the service %q has ended with code %d; why is in the log of events (Application), with its name as the source", f.name, s.Code)
	}
	return err
}

func (f *serviceFlags) stop(ctx context.Context, m platform.Services, _ io.Writer) error {
	if err := m.Stop(f.name); err != nil {
		return err
	}
	// It runs for a moment more, before it has heard of the wish.
	_, err := f.wait(ctx, m, func(s platform.ServiceState) bool { return !s.Running && s.Pending == "" })
	return err
}

func (f *serviceFlags) remove(ctx context.Context, m platform.Services, out io.Writer) error {
	s, err := f.settled(ctx, m) // one that starts cannot be told to stop, and would go on without its entry
	if err != nil {
		return err
	}
	if s.Running {
		if err := f.stop(ctx, m, out); err != nil {
			return err
		}
	}
	return m.Remove(f.name)
}

func (f *serviceFlags) status(_ context.Context, m platform.Services, out io.Writer) error {
	s, err := m.State(f.name)
	if err != nil {
		return err
	}
	switch {
	case s.Pending != "":
		fmt.Fprintf(out, "%s: %s, process %d\n", f.name, s.Pending, s.Process)
	case s.Running:
		fmt.Fprintf(out, "%s: running, process %d\n", f.name, s.Process)
	case s.Code != 0:
		fmt.Fprintf(out, "%s: ended with code %d\n", f.name, s.Code)
	default:
		fmt.Fprintf(out, "%s: stopped\n", f.name)
	}
	return nil
}

// settled waits until the service is neither starting nor stopping: a large model loads for minutes.
func (f *serviceFlags) settled(ctx context.Context, m platform.Services) (platform.ServiceState, error) {
	return f.wait(ctx, m, func(s platform.ServiceState) bool { return s.Pending == "" })
}

// wait waits until the service is in a state.
func (f *serviceFlags) wait(ctx context.Context, m platform.Services, is func(platform.ServiceState) bool) (s platform.ServiceState, err error) {
	for {
		if s, err = m.State(f.name); err != nil || is(s) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
