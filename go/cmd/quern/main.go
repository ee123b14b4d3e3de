// Command quern runs GGUF language models on ordinary CPUs.
//
// It holds flags, wiring and signals, and nothing else: what a flag fills is a
// Config of a package, and what a command prints is what a package returned.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stderr))
}

// execute runs one command line and returns the exit code. Errors go to stderr
// as one line; how to use a command is shown only to those who ask for it.
func execute(args []string, stderr io.Writer) int {
	root := newRootCommand()
	args, err := prepare(root, args)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(context.Background())
	}
	code, message := outcome(err)
	if message != "" {
		fmt.Fprintf(stderr, "quern: %s\n", message)
	}
	return code
}
