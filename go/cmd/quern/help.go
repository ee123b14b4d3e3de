package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// A group is commands that belong together in the help of the program.
type group struct {
	title    string
	commands []*cobra.Command
}

const aboutItself = "This machine and this program"

// add adds the commands of groups to root.
func add(root *cobra.Command, groups ...group) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
}

// helpWidth is the width of help where no narrower terminal shows it.
const helpWidth = 100

// printUsage prints how a command is used. cobra's own does not wrap what flags do, some of which is as long as three lines.
func printUsage(cmd *cobra.Command) error {
	width := helpWidth
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 {
		width = min(columns, width)
	}
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(w, "\nAliases:\n  %s\n", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	commands := func(title, id string) {
		fmt.Fprintf(w, "\n%s:\n", title)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.GroupID == id {
				fmt.Fprintf(w, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	for _, g := range cmd.Groups() {
		commands(g.Title, g.ID)
	}
	if cmd.HasAvailableSubCommands() && !cmd.AllChildCommandsHaveGroup() {
		commands("Commands", "")
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n\"%s COMMAND\" shows what a command does.\n", helpFor(cmd))
	}
	return nil
}

// wrapped breaks the lines of a text that are longer than helpWidth, such as lists of names.
func wrapped(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for len(line) > helpWidth {
			at := strings.LastIndexByte(line[:helpWidth+1], ' ')
			if at <= 0 {
				break
			}
			out, line = append(out, line[:at]), line[at+1:]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
