package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the release build with -X main.version=v0.1.0.
var version string

// A build describes how this binary was built.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "unknown" if it was not built in a checkout
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Kernels string `json:"kernels"` // the instruction sets in use here
}

// readBuild uses the linker's variable, or else the build info that Go recorded.
func readBuild() build {
	b := build{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		modified := false
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if b.Commit != "" && modified {
			b.Commit += " with changes"
		}
	}
	b.Version, b.Commit = cmp.Or(b.Version, "unknown"), cmp.Or(b.Commit, "unknown")
	return b
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the build of this binary",
		Args:  flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			isa, err := chooseKernels()
			if err != nil {
				return err
			}
			b := readBuild()
			b.Kernels = isa.String()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "quern %s\ncommit:  %s\ngo:      %s %s/%s\nkernels: %s\n",
				b.Version, b.Commit, b.Go, b.OS, b.Arch, b.Kernels)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
