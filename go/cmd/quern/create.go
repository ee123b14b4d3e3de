package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/persona"
)

// createFlags are the flags of "quern create".
type createFlags struct {
	hub        hubFlags
	from       string
	file       string // a Modelfile
	system     string
	parameters []string // NAME=VALUE
	sampling   *pflag.FlagSet
}

func newCreateCommand() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Give a model a name with a system prompt and parameters",
		Long: `Store a persona: a name for a model with a system prompt, parameters and example
turns. All commands and APIs accept it as a model. It takes no space and no memory of
its own: it shares the model. Its system prompt is for conversations that have none,
and requests and flags go before its parameters. One of the same name is replaced.

The settings come from flags, or from a Modelfile as Ollama has it, with FROM, SYSTEM,
PARAMETER, MESSAGE and LICENSE; flags go before its lines.`,
		Example: `  quern create mario --from ollama.com/qwen3 --system "You are Mario." --temp 0.5
  quern create mario -f Modelfile
  quern create mario --from demo --parameter stop=END --parameter num_predict=100
  quern chat mario`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "`MODEL` that it is made from: a name in the cache, a GGUF file, or demo")
	fs.StringVarP(&f.file, "file", "f", "", "`FILE` with instructions, a Modelfile; - is standard input")
	fs.StringVar(&f.system, "system", "", "`TEXT` of the system prompt")
	fs.StringArrayVar(&f.parameters, "parameter", nil,
		"`NAME=VALUE` of a parameter, by Ollama's names, such as stop=END; repeatable")
	f.sampling = pflag.NewFlagSet("parameters", pflag.ContinueOnError)
	f.sampling.SortFlags = false
	defineParameters(f.sampling)
	f.sampling.VisitAll(func(flag *pflag.Flag) {
		if name := parameterOf(flag.Name); name != "" {
			fs.AddFlag(flag)
		}
	})
	f.hub.defineKept(fs)
	return cmd
}

// defineParameters defines the flags that set what a parameter does.
func defineParameters(fs *pflag.FlagSet) {
	new(samplingFlags).define(fs)
	predict := 0
	intVar(fs, &predict, "predict", "n", -1, -1, 1<<31-1, "maximum tokens of an answer; -1 is until it ends")
	defineStops(fs, new([]string))
}

// flagNames are the flags that set parameters, where they have other names.
var flagNames = map[string]string{
	"temperature": "temp", "num_predict": "predict", "stop": "reverse-prompt",
	"mirostat_tau": "mirostat-ent", "mirostat_eta": "mirostat-lr",
}

// flagOf returns the flag that sets what a parameter does.
func flagOf(parameter string) string {
	if name := flagNames[parameter]; name != "" {
		return name
	}
	return strings.ReplaceAll(parameter, "_", "-")
}

// parameterOf returns the parameter that a flag sets; empty: none.
func parameterOf(flag string) string {
	for _, name := range persona.Names() {
		if flagOf(name) == flag {
			return name
		}
	}
	return ""
}

// setParameters sets the flags that were not given as the parameters of a persona say, which may be nil. It returns an
// error for each parameter that is out of its flag's range, which it leaves out.
func setParameters(fs *pflag.FlagSet, p *persona.Persona) (wrong []error) {
	if p == nil {
		return nil
	}
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	p.Parameters.Each(func(name, value string) {
		flag := fs.Lookup(flagOf(name))
		if given[flag.Name] {
			return
		}
		if name == "num_predict" && value == "-2" {
			value = "-1"
		}
		if err := flag.Value.Set(value); err != nil {
			wrong = append(wrong, fmt.Errorf("parameter %s: got %.40q, %w", name, value, err))
			return
		}
		flag.Changed = true
	})
	return wrong
}

// useParameters sets flags as setParameters does, and notes which parameters are left out.
func useParameters(fs *pflag.FlagSet, p *persona.Persona, note func(string)) {
	for _, err := range setParameters(fs, p) {
		note("the model's " + usage.OneLine(err) + "; it is left out")
	}
}

// run implements "quern create".
func (f *createFlags) run(cmd *cobra.Command, name string) error {
	p, err := f.persona(cmd.InOrStdin())
	if err != nil {
		return err
	}
	h, err := f.hub.open(0)
	if err != nil {
		return err
	}
	modelfile := f.file
	if f.from != "" { // which is of the command, and not of the file
		modelfile = ""
	}
	if p.From, err = baseOf(h, p.From, modelfile); err != nil {
		return err
	}
	values := pflag.NewFlagSet("values", pflag.ContinueOnError)
	defineParameters(values)
	p.Name = name
	if wrong := setParameters(values, p); len(wrong) > 0 { // which says what values there may be
		return fmt.Errorf("%s: %w", name, wrong[0])
	}
	if p, err = h.Create(cmd.Context(), p); err != nil {
		return err
	}
	if idle := p.Parameters.Idle(); len(idle) > 0 {
		notes(cmd.ErrOrStderr())(strings.Join(idle, ", ") +
			": stored, without effect: flags say how a model is loaded, such as -c and -t")
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: made from %s\n", visible(p.Name), visible(p.From))
	return err
}

// persona returns what the flags say.
func (f *createFlags) persona(stdin io.Reader) (*persona.Persona, error) {
	p := &persona.Persona{From: f.from, System: f.system}
	for _, one := range f.parameters {
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			return nil, usagef("--parameter %q: want NAME=VALUE such as temperature=0.5", one)
		}
		if err := p.Parameters.Add(name, value); err != nil {
			return nil, usagef("--parameter: %w", err)
		}
	}
	var wrong error
	f.sampling.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed || wrong != nil {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			wrong = errors.Join(wrong, p.Parameters.Add(parameterOf(flag.Name), value))
		}
	})
	if wrong != nil {
		return nil, usagef("%w", wrong)
	}
	if f.file != "" {
		of, err := readModelfile(f.file, stdin)
		if err != nil {
			return nil, err
		}
		from := of.From
		p = p.Over(of)
		if p.From == "" {
			p.From = from
		}
	}
	if p.From == "" {
		return nil, usagef("no model; name the one that it is made from with --from MODEL, or in a Modelfile with -f FILE")
	}
	return p, nil
}

// readModelfile reads a Modelfile; - is standard input.
func readModelfile(path string, stdin io.Reader) (*persona.Persona, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, persona.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	p, err := persona.ParseModelfile(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// baseOf returns the name by which a persona knows its model: one of the cache, the demo, or the path of a file, which
// in a Modelfile is relative to that.
func baseOf(h *hub.Hub, from, modelfile string) (string, error) {
	if demo.Is(from) {
		return from, nil
	}
	paths := []string{from}
	if modelfile != "" && modelfile != "-" && !filepath.IsAbs(from) {
		paths = append([]string{filepath.Join(filepath.Dir(modelfile), from)}, from)
	}
	for _, path := range slices.Compact(paths) {
		if info, err := os.Stat(path); err == nil && (info.Mode().IsRegular() || strings.ContainsRune(from, '/')) {
			return filepath.Abs(path)
		}
	}
	_, _, err := h.Named(from)
	if errors.Is(err, hub.ErrNotFound) {
		if ref, wrong := hub.ParseRef(from); wrong == nil {
			return "", fmt.Errorf("%s is not in the cache; download it with \"quern pull %s\"", ref, ref)
		}
		return "", notHere(from)
	}
	return from, err
}
