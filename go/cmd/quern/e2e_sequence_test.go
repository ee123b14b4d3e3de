package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/tools"
)

// inSequence makes this test binary run command lines of the program one after the other: to begin a process costs several
// times what most of those do that are refused. Each is a line of JSON, and so is what it left.
const inSequence = "TEST_COMMANDS"

// A left is a result as JSON.
type left struct {
	Code           int
	Stdout, Stderr string
	CPU            time.Duration
}

// processTime returns the CPU time of this process.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// runSequence runs the command lines that come, as main does.
func runSequence() error {
	tools.Enter()
	platform.Start()
	lines, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	os.Stdin = nothing
	var streams [2]*os.File
	for i, stream := range []**os.File{&os.Stdout, &os.Stderr} {
		f, err := os.CreateTemp("", "quern-said-")
		if err != nil {
			return err
		}
		os.Remove(f.Name())
		*stream, streams[i] = f, f
	}
	for {
		var args []string
		if err := lines.Decode(&args); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		before := processTime()
		r := left{Code: execute(args, os.Stderr)}
		r.CPU = processTime() - before
		for i, said := range []*string{&r.Stdout, &r.Stderr} {
			f := streams[i]
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
			b, err := io.ReadAll(f)
			if err != nil {
				return err
			}
			*said = string(b)
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
			if err := f.Truncate(0); err != nil {
				return err
			}
		}
		if err := answers.Encode(r); err != nil {
			return err
		}
	}
}

// commands runs command lines in one process, with a gigabyte of memory and ten seconds of CPU time for each.
type commands struct {
	t       *testing.T
	cmd     *exec.Cmd
	lines   io.WriteCloser
	answers *json.Decoder
	stderr  bytes.Buffer // what goes round the streams of commands, such as a panic
	watch   *time.Timer
}

const commandTime = 10 * time.Minute // a command that takes longer hangs

// startCommands begins the process; where that fails, none of its commands runs.
func startCommands(t *testing.T) *commands {
	c := &commands{t: t}
	c.cmd = exec.CommandContext(t.Context(), "sh", "-c", memoryLimit+` && exec "$0"`, os.Args[0])
	c.cmd.Env = append(cleanEnvironment(), inSequence+"=1")
	c.cmd.Stderr = &c.stderr
	lines, errIn := c.cmd.StdinPipe()
	answers, errOut := c.cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		t.Error(err)
		return c
	}
	c.lines, c.answers = lines, json.NewDecoder(answers)
	if err := c.cmd.Start(); err != nil {
		t.Error(err)
		return c
	}
	c.watch = time.AfterFunc(commandTime, func() { _ = c.cmd.Process.Kill() })
	return c
}

// run returns what a command left; not where the process ended with it, which is an error.
func (c *commands) run(args []string) (result, bool) {
	if c.watch == nil {
		return result{}, false
	}
	c.watch.Reset(commandTime)
	var r left
	err := json.NewEncoder(c.lines).Encode(args)
	if err == nil {
		err = c.answers.Decode(&r)
	}
	if err != nil {
		c.lines.Close()
		c.t.Errorf("the process ended: %v, %v; it said %.2000q", err, c.cmd.Wait(), c.stderr.String())
		c.watch.Stop()
		c.watch = nil
		return result{}, false
	}
	if r.CPU > 10*time.Second {
		c.t.Errorf("took %v of CPU time, want under 10s", r.CPU)
	}
	return result{r.Stdout, r.Stderr, r.Code, r.CPU}, true
}

// end ends the process, which has to go well.
func (c *commands) end() {
	if c.watch == nil {
		return
	}
	c.lines.Close()
	err := c.cmd.Wait()
	c.watch.Stop()
	if err != nil || c.stderr.Len() > 0 {
		c.t.Errorf("the process ended: %v; it said %.2000q", err, c.stderr.String())
	}
}

// The process of many commands has what they say apart, their exit codes and the limits of one that has a process of its own.
func TestCommandsInSequence(t *testing.T) {
	t.Parallel()
	c := startCommands(t)
	defer c.end()
	said := succeed(t, "tokenize", "-m", "demo", "-p", "Once upon a time")
	for range 2 {
		if r, ok := c.run([]string{"tokenize", "-m", "demo", "-p", "Once upon a time"}); !ok || r.code != 0 || r.stderr != "" || r.stdout != said {
			t.Errorf("got %+v, want %q", r, said)
		}
		if r, ok := c.run([]string{"rnu"}); ok {
			r.refused(t, 2, "did you mean run")
		}
		if r, ok := c.run([]string{"run", "-m", "demo", "-p", "x", "-n", "1", "-c", "2000000", "-ctk", "f32", "-ctv", "f32"}); ok {
			r.refused(t, 1, "keys and values", "cannot allocate memory")
		}
	}
}
