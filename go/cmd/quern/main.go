// Command quern runs GGUF language models on ordinary CPUs.
//
// It contains only flags, wiring and signals: flags fill the Config of a package, and
// commands print what packages return.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/tools"
)

func main() {
	tools.Enter() // or this is the process of a tool
	platform.Start()
	os.Exit(execute(os.Args[1:], os.Stderr))
}

// execute runs a command line and returns the exit code. Errors are printed to stderr
// as one line; usage is printed only on request.
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
