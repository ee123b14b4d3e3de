package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/persona"
)

// A cached is a downloaded model as "quern list" and "quern show" print it. What its head says is empty where it cannot be run.
type cached struct {
	Name     string          `json:"name"`
	Source   string          `json:"source"`
	Revision string          `json:"revision,omitempty"`
	Pulled   time.Time       `json:"pulled"`
	Bytes    int64           `json:"bytes"`
	Path     string          `json:"path"`
	Arch     string          `json:"architecture,omitempty"`
	Params   uint64          `json:"parameters,omitempty"`
	Type     string          `json:"type,omitempty"`
	Ctx      int             `json:"context,omitempty"`
	Refusal  string          `json:"unsupported,omitempty"` // why Quern cannot run it
	Files    []hub.ModelFile `json:"files,omitempty"`

	Projector string `json:"projector,omitempty"` // the path of its encoders of pictures and sounds

	From    string           `json:"from,omitempty"`    // of a persona: its model
	Persona *persona.Persona `json:"persona,omitempty"` // settings of the model, or of a persona
}

// newCached reads the head of a model.
func newCached(h *hub.Hub, m *hub.Model) cached {
	c := cached{Name: m.Name, Source: m.Source, Revision: m.Revision, Pulled: m.Pulled, Bytes: m.Bytes(), Path: h.Path(m), Files: m.Files, Persona: m.Persona}
	file, err := openFile(c.Path)
	if err != nil {
		c.Refusal = err.Error()
		return c
	}
	defer file.Close()
	c.Type = file.GGUF.MixName()
	for i := range file.GGUF.Tensors {
		c.Params += file.GGUF.Tensors[i].Elems()
	}
	c.Arch, _ = file.GGUF.Str("general.architecture")
	if p, err := file.GGUF.Projector(); err == nil {
		c.Refusal = needsModel(p)
		return c
	}
	c.Projector = gguf.ProjectorBeside(c.Path)
	cfg, err := file.Config()
	if err != nil {
		c.Refusal = err.Error()
		return c
	}
	c.Ctx = cfg.NCtx
	return c
}

// cachedPersona is a persona as a model.
func cachedPersona(p *persona.Persona) cached {
	return cached{Name: p.Name, Source: p.From, Pulled: p.Created, From: p.From, Persona: p}
}

func newListCommand() *cobra.Command {
	var f hubFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the downloaded models",
		Long: `List the downloaded models. All commands accept these names. For a server's models
see "quern ps".`,
		Args: flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := f.open(0)
			if err != nil {
				return err
			}
			models, err := h.List()
			all := []cached{}
			for _, m := range models {
				all = append(all, newCached(h, m))
			}
			personas, bad := h.Personas()
			for _, p := range personas {
				all = append(all, cachedPersona(p))
			}
			slices.SortStableFunc(all, func(a, b cached) int { return strings.Compare(a.Name, b.Name) })
			if err = errors.Join(err, bad); err != nil {
				notes(cmd.ErrOrStderr())(usage.OneLine(err))
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			if len(all) == 0 && err == nil && isTerminal(cmd.OutOrStdout()) {
				notes(cmd.ErrOrStderr())("no model was downloaded; \"quern pull\" downloads one")
				return nil
			}
			return printCached(cmd.OutOrStdout(), all)
		},
	}
	f.defineKept(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printCached(out io.Writer, all []cached) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSIZE\tPARAMETERS\tTYPE\tPULLED")
	for _, c := range all {
		params := "-"
		if c.Params > 0 {
			params = gguf.SizeName(c.Params)
		}
		size, kind := mem.FormatBytes(uint64(c.Bytes)), c.Type
		if c.From != "" {
			size, kind = "-", "persona of "+c.From
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", visible(c.Name), size, params, visible(kind), c.Pulled.Local().Format(time.DateTime))
	}
	return w.Flush()
}

func newShowCommand() *cobra.Command {
	var f hubFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the origin and the metadata of a downloaded model",
		Long: `Show the origin of a downloaded model, its files with their SHA-256, and a summary
of its header. "quern inspect NAME" shows the whole header, and the memory needed.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := f.open(0)
			if err != nil {
				return err
			}
			c, err := cachedNamed(h, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), c)
			}
			return c.print(cmd.OutOrStdout())
		},
	}
	f.defineKept(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// cachedNamed returns the persona or the model of a name.
func cachedNamed(h *hub.Hub, name string) (cached, error) {
	p, m, err := h.Named(name)
	switch {
	case err != nil:
		return cached{}, err
	case p != nil:
		return cachedPersona(p), nil
	}
	return newCached(h, m), nil
}

func (c *cached) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, visible(value))
		}
	}
	row("name", c.Name)
	if c.From != "" {
		row("from", c.From)
		row("created", c.Pulled.Local().Format(time.DateTime))
		c.settings(row)
		return w.Flush()
	}
	if c.Source != c.Name {
		row("source", c.Source)
	}
	row("revision", c.Revision)
	row("pulled", c.Pulled.Local().Format(time.DateTime))
	row("size", mem.FormatBytes(uint64(c.Bytes)))
	row("architecture", c.Arch)
	if c.Params > 0 {
		row("parameters", gguf.SizeName(c.Params))
	}
	row("type", c.Type)
	if c.Ctx > 0 {
		row("context", fmt.Sprintf("%d tokens", c.Ctx))
	}
	row("unsupported", c.Refusal)
	row("path", c.Path)
	row("projector", c.Projector)
	for _, f := range c.Files {
		row("sha256 of "+visible(f.Name), f.SHA256)
	}
	c.settings(row)
	return w.Flush()
}

// settings prints those of a persona.
func (c *cached) settings(row func(name, value string)) {
	if c.Persona == nil {
		return
	}
	row("system", c.Persona.System)
	for line := range strings.Lines(c.Persona.Parameters.Lines()) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		row("parameter", name+" "+strings.TrimLeft(value, " "))
	}
	for _, m := range c.Persona.Messages {
		row(m.Role, m.Content)
	}
	row("license", c.Persona.License)
}
