package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/mem"
)

// orDemoHelp is part of the help of commands whose model is optional.
const orDemoHelp = `Without -m the embedded demo model is used, a small one that tells stories. -m demo
names it too; a file called demo is ./demo.`

// demoNote is shown when no model is named.
const demoNote = "no model given: using the embedded demo model, which tells short stories; choose another with -m FILE"

// visionNote is shown when no model is named for a picture.
const visionNote = "no model given: using the embedded vision demo, which names coloured shapes, digits and letters; choose another with -m FILE"

// orDemo selects a demo if no model is named, and says so: where there are pictures, the one that sees.
func (f *modelFlags) orDemo(pictures bool, say func(string)) {
	switch {
	case f.path != "":
	case pictures:
		f.path = demo.Vision
		say(visionNote)
	default:
		f.path = demo.Name
		say(demoNote)
	}
}

// notes returns a function that writes notes, a line each, to w.
func notes(w io.Writer) func(string) {
	return func(line string) { fmt.Fprintf(w, "quern: %s\n", line) }
}

func newExportDemoCommand() *cobra.Command {
	var force, vision bool
	cmd := &cobra.Command{
		Use:   "export-demo FILE",
		Short: "Write an embedded demo model to a GGUF file",
		Long: `Write the embedded demo model to a GGUF file, for other programs or to inspect. The
file is written atomically. - is standard output.

With --vision it is the model that names what is in a picture, and its projector
is written beside it, as mmproj-FILE.`,
		Example: `  quern export-demo demo.gguf
  quern export-demo --vision eyes.gguf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d names of files to write, want one", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if vision {
				return exportVision(args[0], force, cmd.ErrOrStderr())
			}
			return exportDemo(args[0], force, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	cmd.Flags().BoolVar(&vision, "vision", false, "the model that names what is in a picture, and its projector")
	return cmd
}

// exportDemo implements "quern export-demo".
func exportDemo(name string, force bool, stdout, stderr io.Writer) error {
	switch {
	case name == "":
		return usagef("no file to write; give its name")
	case name == "-" && isTerminal(stdout):
		return usagef("a model is no text for a terminal; redirect standard output, or give a file")
	case name == "-":
		_, err := stdout.Write(demo.GGUF())
		return err
	}
	return export(name, demo.GGUF(), force, stderr)
}

// exportVision implements "quern export-demo --vision".
func exportVision(name string, force bool, stderr io.Writer) error {
	if name == "" || name == "-" {
		return usagef("the demo with a projector is two files; give the name of the first")
	}
	if err := export(name, demo.File(demo.Vision), force, stderr); err != nil {
		return err
	}
	return export(filepath.Join(filepath.Dir(name), "mmproj-"+filepath.Base(name)), demo.Projector(demo.Vision), force, stderr)
}

// export writes a file and says how large it is.
func export(name string, file []byte, force bool, stderr io.Writer) error {
	n, err := newfile.Write(name, force, 0o644, uint64(len(file)), func(w io.Writer) (int64, error) {
		n, err := w.Write(file)
		return int64(n), err
	})
	if err != nil {
		return orForce(name, err)
	}
	fmt.Fprintf(stderr, "%s: %s\n", name, mem.FormatBytes(uint64(n)))
	return nil
}
