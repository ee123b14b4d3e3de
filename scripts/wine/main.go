// Command wine checks what was built for Windows under Wine, on Linux: tests of packages, and the program as people use it.
// scripts/cross.sh builds both and runs it.
//
//	go run ./scripts/wine [-v] [-only WORD] FOLDER    FOLDER has quern.exe and PACKAGE.test.exe
//
// WINE is Wine's program, and WINEPREFIX a folder for what it keeps.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A check is one thing that has to hold.
type check struct {
	name string
	do   func() error
}

func main() {
	verbose := flag.Bool("v", false, "print what programs under Wine print")
	only := flag.String("only", "", "run checks whose name has `WORD` in it")
	flag.Parse()
	if err := run(flag.Arg(0), *only, *verbose); err != nil {
		fmt.Fprintf(os.Stderr, "wine: %v\n", err)
		os.Exit(1)
	}
}

func run(built, only string, verbose bool) error {
	if built == "" || os.Getenv("WINE") == "" || os.Getenv("WINEPREFIX") == "" {
		return errors.New("want a folder with what was built, and WINE and WINEPREFIX in the environment (see scripts/cross.sh)")
	}
	built, err := filepath.Abs(built)
	if err != nil {
		return err
	}
	version, err := exec.Command(os.Getenv("WINE"), "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", os.Getenv("WINE"), err)
	}
	w := wine{built: built, verbose: verbose, eight: strings.HasPrefix(string(version), "wine-8.")}
	if w.dir, err = os.MkdirTemp("", "quern-wine-"); err != nil {
		return err
	}
	defer os.RemoveAll(w.dir)
	checks, err := w.packages()
	if err != nil {
		return err
	}
	failed := 0
	for _, c := range append(checks, w.program()...) {
		if !strings.Contains(c.name, only) {
			continue
		}
		start, result := time.Now(), "ok"
		err := c.do()
		if err != nil {
			result = "FAILED"
			failed++
		}
		fmt.Printf("%-50s %-6s %5.1f s\n", c.name, result, time.Since(start).Seconds())
		if err != nil {
			fmt.Printf("\t%s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n\t"))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d checks failed", failed)
	}
	return nil
}

// wine runs programs for Windows.
type wine struct {
	built   string // the folder with programs
	dir     string // for files, removed at the end
	verbose bool
	eight   bool // it is Wine 8
}

// command is a program under Wine. A slash begins a path of the drive that Wine has for this machine's root, if the folder in
// which it is run is on that.
func (w wine) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Getenv("WINE"), append([]string{filepath.Join(w.built, program)}, args...)...)
	cmd.Env = append(os.Environ(), "WINEDEBUG=-all", "QUERN_MODEL_CACHE="+filepath.Join(w.dir, "cache"))
	cmd.Dir = w.dir
	return cmd
}

// An outcome is what a program left.
type outcome struct {
	stdout, stderr string
	code           int
}

// quern runs the program, and ends it after some minutes.
func (w wine) quern(env []string, args ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cmd := w.command(ctx, "quern.exe", args...)
	cmd.Env = append(cmd.Env, env...)
	stdout, stderr, err := w.printed(cmd)
	if w.verbose {
		fmt.Printf("\t%q: %v\n\t%s\n\t%s\n", args, err, stdout, stderr)
	}
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("%q does not end", args)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	return outcome{stdout, stderr, cmd.ProcessState.ExitCode()}, nil
}

// printed runs a command and returns what it has printed by way of files: Wine's own processes keep pipes open, whichever
// command has started them.
func (w wine) printed(cmd *exec.Cmd) (stdout, stderr string, err error) {
	out, err := os.CreateTemp(w.dir, "stdout")
	if err != nil {
		return "", "", err
	}
	defer out.Close()
	errs, err := os.CreateTemp(w.dir, "stderr")
	if err != nil {
		return "", "", err
	}
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	err = cmd.Run()
	text := func(f *os.File) string {
		b, _ := os.ReadFile(f.Name())
		return string(b)
	}
	return text(out), text(errs), err
}

// succeed is quern for what must go well; it returns what it printed.
func (w wine) succeed(args ...string) (string, error) {
	r, err := w.quern(nil, args...)
	if err == nil && r.code != 0 {
		err = fmt.Errorf("%q ends with %d: %s", args, r.code, r.stderr)
	}
	return r.stdout, err
}

// refused is quern for what must fail with one line that has words in it.
func (w wine) refused(words []string, args ...string) error {
	r, err := w.quern(nil, args...)
	if err != nil {
		return err
	}
	line := strings.ReplaceAll(r.stderr, "\r", "")
	if r.code == 0 || !strings.HasPrefix(line, "quern: ") || strings.Count(line, "\n") != 1 {
		return fmt.Errorf("%q ends with %d, %q; want an error of one line", args, r.code, r.stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			return fmt.Errorf("%q: %q, want %q in it", args, line, word)
		}
	}
	return nil
}
