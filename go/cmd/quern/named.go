package main

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// allArguments is the count of a command whose arguments are all models.
const allArguments = math.MaxInt

// namesModels lets the first arguments of a command be names of models as -m has them: of the cache, or to be downloaded. All but
// the first may have the scale of an adapter behind them. The command itself is given files.
func namesModels(cmd *cobra.Command, count int) *cobra.Command {
	var hub hubFlags
	fs := cmd.Flags()
	hub.defineCache(fs)
	fs.BoolVarP(&hub.yes, "yes", "y", false, "download a model that is not here without asking")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		files := slices.Clone(args)
		for i := range min(count, len(args)) {
			name, scale := args[i], ""
			if i > 0 {
				name, scale = withoutScale(args[i])
			}
			at, err := hub.locate(cmd, name, false)
			if err != nil {
				return err
			}
			files[i] = at.path + scale
		}
		if cmd.Name() == "quantize" && files[0] != args[0] && (len(args) < 2 || isKind(args[1]) || args[1] == autoKind) {
			return usagef("%s is in the cache, where nothing is written beside it; name the file to write: quern quantize %s OUT ...", args[0], args[0])
		}
		return run(cmd, files)
	}
	return cmd
}

// withoutScale cuts the scale of an adapter off its name: a number behind the last colon, where that is no file's name.
func withoutScale(arg string) (name, scale string) {
	i := strings.LastIndexByte(arg, ':')
	if _, err := os.Stat(arg); err == nil || i < 0 {
		return arg, ""
	}
	if _, err := strconv.ParseFloat(arg[i+1:], 32); err != nil {
		return arg, ""
	}
	return arg[:i], arg[i:]
}
